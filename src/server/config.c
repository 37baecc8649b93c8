#include "server/config.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/expression.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row a flag: the table is the help, the parser and the environment. */
enum flag {
    FLAG_HTTP = 256,
    FLAG_AMQP,
    FLAG_AMQPS,
    FLAG_AMQP_USER,
    FLAG_AMQP_PERMISSION,
    FLAG_AMQP_PRODUCT,
    FLAG_DATA,
    FLAG_DURABILITY,
    FLAG_TOKEN,
    FLAG_TOKEN_FILE,
    FLAG_TOKEN_NAME,
    FLAG_TLS_CERT,
    FLAG_TLS_KEY,
    FLAG_INSECURE,
    FLAG_ALERTS_PRIVATE,
    FLAG_LOG_LEVEL,
    FLAG_PAYLOAD_MAX,
    FLAG_BODY_MAX,
    FLAG_CONNECTIONS_MAX,
    FLAG_INFLIGHT_MAX,
    FLAG_REQUEST_TIMEOUT,
    FLAG_IDLE_TIMEOUT,
    FLAG_DATA_MAX_BYTES,
    FLAG_SEGMENT_BYTES,
    FLAG_TEST_CLOCK,
    FLAG_HELP,
};

static const struct row {
    const char *name, *value; /* value NULL: a switch */
    enum flag flag;
    const char *help;
} rows[] = {
    {"http", "ADDR:PORT", FLAG_HTTP, "where to listen; port 0 picks a free one (127.0.0.1:8072)"},
    {"amqp", "ADDR:PORT|off", FLAG_AMQP, "where to listen for AMQP 0-9-1 (127.0.0.1:5672)"},
    {"amqps", "ADDR:PORT", FLAG_AMQPS, "the same within TLS; needs --tls-cert (off)"},
    {"amqp-user", "USER:PASSWORD", FLAG_AMQP_USER,
     "who may log in; can be repeated (guest:guest, from this machine only)"},
    {"amqp-permission", "PERMISSION", FLAG_AMQP_PERMISSION,
     "'USER VHOST CONFIGURE WRITE READ', expressions on names; can be repeated (everything)"},
    {"amqp-product", "NAME", FLAG_AMQP_PRODUCT,
     "what AMQP clients are told to speak to (RabbitMQ)"},
    {"data", "DIR", FLAG_DATA, "the data directory, made when missing (./data)"},
    {"durability", "sync|none", FLAG_DURABILITY,
     "sync: every reply is on disk; none: the system writes when it likes (sync)"},
    {"token", "TOKEN", FLAG_TOKEN, "what clients must send as Authorization: Bearer TOKEN (none)"},
    {"token-file", "FILE", FLAG_TOKEN_FILE, "the same, read from a file's first line"},
    {"token-name", "NAME", FLAG_TOKEN_NAME,
     "who its holders are on the audit, unless they say so themselves (token)"},
    {"tls-cert", "FILE", FLAG_TLS_CERT, "PEM certificate chain: HTTPS instead of HTTP"},
    {"tls-key", "FILE", FLAG_TLS_KEY, "PEM private key of the certificate"},
    {"insecure", NULL, FLAG_INSECURE, "allow another address than loopback without a token"},
    {"alerts-private", NULL, FLAG_ALERTS_PRIVATE,
     "let alerts go to private, loopback and link-local addresses, too"},
    {"log-level", "LEVEL", FLAG_LOG_LEVEL, "error, warn, info or debug (info)"},
    {"payload-max", "BYTES", FLAG_PAYLOAD_MAX, "largest payload; K, M, G may follow (1M)"},
    {"body-max", "BYTES", FLAG_BODY_MAX, "largest request body (16M)"},
    {"connections-max", "N", FLAG_CONNECTIONS_MAX, "connections at one time (4096)"},
    {"inflight-max", "N", FLAG_INFLIGHT_MAX,
     "requests waiting for the disk or for a message (8192)"},
    {"request-timeout", "SECONDS", FLAG_REQUEST_TIMEOUT, "for a request to arrive whole (30)"},
    {"idle-timeout", "SECONDS", FLAG_IDLE_TIMEOUT, "for an idle connection (75)"},
    {"data-max-bytes", "BYTES", FLAG_DATA_MAX_BYTES,
     "treat the disk as full when the log takes this much; 0 = the disk decides (0)"},
    {"segment-bytes", "BYTES", FLAG_SEGMENT_BYTES, "size of a new log's segments, from 256K (64M)"},
    {"test-clock", NULL, FLAG_TEST_CLOCK, "time moves only by the X-Now header of requests"},
    {"help", NULL, FLAG_HELP, "show this"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static void print_help(void) {
    printf(
        "usage: nixie serve [flags]\n\n"
        "Serves the queues in a data directory until SIGTERM. Prints \"listening http ADDR:PORT\"\n"
        "when it is ready, and \"listening amqp ...\" after it. Each flag can be given as "
        "NIXIE_<FLAG>\n"
        "in the environment, too (NIXIE_HTTP, NIXIE_DATA_MAX_BYTES ...).\n\n");
    for (size_t i = 0; i < ROWS; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].value ? rows[i].value : "");
        printf("  %-28s %s\n", left, rows[i].help);
    }
    printf("\nexamples:\n"
           "  nixie serve --data /var/lib/nixie\n"
           "  nixie serve --http 0.0.0.0:8072 --token-file /etc/nixie/token \\\n"
           "      --tls-cert cert.pem --tls-key key.pem\n\n"
           "exit status: 0 stopped as asked; 1 could not start or go on; 2 wrong usage; 70 stopped "
           "at\n"
           "once because the disk failed or held damaged data\n");
}

static bool wrong(const char *flag, const char *value, const char *expected) {
    fprintf(stderr, "nixie serve: --%s %s: must be %s\n", flag, value, expected);
    return false;
}

static bool read_number(const char *text, bool units, int64_t low, int64_t high, int64_t *ret) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    int shift = 0;
    if (units && *end) {
        static const char letters[] = "KMGT";
        const char *at = strchr(letters, toupper((unsigned char)*end));
        if (!at)
            return false;
        shift = 10 * (int)(at - letters + 1);
        end++;
    }
    if (end == text || *end || errno || v < 0 || v > high >> shift)
        return false;
    *ret = (int64_t)v << shift;
    return *ret >= low;
}

static bool set_number(const char *flag, const char *text, bool units, int64_t low, int64_t high,
                       int64_t *ret) {
    if (read_number(text, units, low, high, ret))
        return true;
    char expected[96];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low, high);
    return wrong(flag, text, expected);
}

/* "host:port", "[v6]:port". */
static bool set_address(const char *flag, const char *text, char **ret_host, char **ret_port) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return wrong(flag, text, "ADDR:PORT");
    size_t n = (size_t)(colon - text);
    if (text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    int64_t port;
    if (!read_number(colon + 1, false, 0, 65535, &port))
        return wrong(flag, text, "ADDR:PORT with a port from 0 to 65535");
    free(*ret_host);
    free(*ret_port);
    *ret_host = mem_alloc(n + 1);
    memcpy(*ret_host, text, n);
    *ret_port = mem_strdup(colon + 1);
    return true;
}

static bool set_amqp(struct config *c, const char *text) {
    c->amqp_is_asked_for = true;
    if (strcmp(text, "off") != 0)
        return set_address("amqp", text, &c->amqp_host, &c->amqp_port);
    free(c->amqp_host);
    free(c->amqp_port);
    c->amqp_host = c->amqp_port = NULL;
    return true;
}

/* The password is not shown, not even when it is wrong. */
static bool add_amqp_user(struct config *c, const char *text) {
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || !colon[1] || !span_is_utf8(span_str(text)) ||
        (size_t)(colon - text) > LIMIT_ACTOR) {
        fprintf(stderr,
                "nixie serve: --amqp-user: must be USER:PASSWORD, the user at most %d bytes\n",
                LIMIT_ACTOR);
        return false;
    }
    if (c->amqp_user_count == LIMIT_AMQP_USERS) {
        fprintf(stderr, "nixie serve: --amqp-user: at most %d\n", LIMIT_AMQP_USERS);
        return false;
    }
    c->amqp_users[c->amqp_user_count++] = text;
    return true;
}

/* The next field of the line; '' and "" are empty ones. */
static struct span next_field(const char **at) {
    *at += strspn(*at, " ");
    struct span field = span_of(*at, strcspn(*at, " "));
    *at += field.n;
    if (span_equal_str(field, "''") || span_equal_str(field, "\"\""))
        field.n = 0;
    return field;
}

static bool add_amqp_permission(struct config *c, const char *text) {
    struct amqp_permission p;
    struct span *const fields[] = {&p.user, &p.vhost, &p.configure, &p.write, &p.read};
    const char *at = text;
    bool is_whole = true;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *before = at;
        *fields[i] = next_field(&at);
        is_whole = is_whole && at > before + strspn(before, " ");
    }
    if (!is_whole || at[strspn(at, " ")] || !span_is_utf8(span_str(text)))
        return wrong("amqp-permission", text, "'USER VHOST CONFIGURE WRITE READ'");
    for (size_t i = 2; i < sizeof fields / sizeof fields[0]; i++) {
        struct expression_error error;
        struct expression *e = expression_new(*fields[i], &error);
        expression_free(e);
        if (e == NULL)
            return wrong("amqp-permission", text, error.text);
    }
    if (c->amqp_permission_count == LIMIT_AMQP_PERMISSIONS)
        return wrong("amqp-permission", text, "one of at most 1000");
    c->amqp_permissions[c->amqp_permission_count++] = p;
    return true;
}

static bool set_amqp_product(struct config *c, const char *text) {
    c->amqp_product = text;
    return *text && span_is_utf8(span_str(text)) ? true
                                                 : wrong("amqp-product", text, "a name in UTF-8");
}

static bool set_token(struct config *c, const char *token) {
    if (!*token)
        return wrong("token", "''", "not empty");
    free(c->token);
    c->token = mem_strdup(token);
    return true;
}

static bool read_token_file(struct config *c, const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) {
        fprintf(stderr, "nixie serve: --token-file %s: %s\n", path, strerror(errno));
        return false;
    }
    char line[1024] = "";
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    line[strcspn(line, "\r\n")] = '\0';
    if (!ok || !line[0]) {
        fprintf(stderr, "nixie serve: --token-file %s: its first line is empty\n", path);
        return false;
    }
    return set_token(c, line);
}

static bool set_token_name(struct config *c, const char *name) {
    struct span text = span_str(name);
    if (text.n == 0 || text.n > LIMIT_ACTOR || !span_is_utf8(text)) {
        fprintf(stderr, "nixie serve: --token-name: must be 1 to %d bytes of UTF-8\n", LIMIT_ACTOR);
        return false;
    }
    c->token_name = name;
    return true;
}

static bool set_bytes(const struct row *row, const char *text, int64_t low, int64_t high,
                      size_t *ret) {
    int64_t v = 0;
    bool ok = set_number(row->name, text, true, low, high, &v);
    *ret = (size_t)v;
    return ok;
}

static bool set_count(const struct row *row, const char *text, unsigned *ret) {
    int64_t v = 0;
    bool ok = set_number(row->name, text, false, 1, 1000000, &v);
    *ret = (unsigned)v;
    return ok;
}

static bool set_seconds(const struct row *row, const char *text, int64_t high, int64_t *ret_ms) {
    int64_t v = 0;
    bool ok = set_number(row->name, text, false, 1, high, &v);
    *ret_ms = v * 1000;
    return ok;
}

static bool set_flag(struct config *c, const struct row *row, const char *text) {
    switch (row->flag) {
    case FLAG_HTTP:
        return set_address("http", text, &c->http_host, &c->http_port);
    case FLAG_AMQP:
        return set_amqp(c, text);
    case FLAG_AMQPS:
        return set_address("amqps", text, &c->amqps_host, &c->amqps_port);
    case FLAG_AMQP_USER:
        return add_amqp_user(c, text);
    case FLAG_AMQP_PERMISSION:
        return add_amqp_permission(c, text);
    case FLAG_AMQP_PRODUCT:
        return set_amqp_product(c, text);
    case FLAG_DATA:
        c->data = text;
        return *text ? true : wrong("data", "''", "a directory");
    case FLAG_DURABILITY:
        c->durability_none = strcmp(text, "none") == 0;
        return c->durability_none || strcmp(text, "sync") == 0
                   ? true
                   : wrong("durability", text, "sync or none");
    case FLAG_TOKEN:
        return set_token(c, text);
    case FLAG_TOKEN_FILE:
        return read_token_file(c, text);
    case FLAG_TOKEN_NAME:
        return set_token_name(c, text);
    case FLAG_TLS_CERT:
        c->tls_cert = text;
        return true;
    case FLAG_TLS_KEY:
        c->tls_key = text;
        return true;
    case FLAG_INSECURE:
        c->insecure = true;
        return true;
    case FLAG_ALERTS_PRIVATE:
        c->alerts_private = true;
        return true;
    case FLAG_TEST_CLOCK:
        c->test_clock = true;
        return true;
    case FLAG_LOG_LEVEL: {
        int level = log_level_parse(text);
        c->log_level = level < 0 ? c->log_level : (enum log_level)level;
        return level >= 0 ? true : wrong("log-level", text, "error, warn, info or debug");
    }
    case FLAG_DATA_MAX_BYTES:
        return set_number(row->name, text, true, 0, INT64_MAX / 2, &c->data_bytes_max);
    case FLAG_SEGMENT_BYTES:
        return set_number(row->name, text, true, LOG_SEGMENT_BYTES_MIN, 1024 * 1024 * 1024,
                          &c->segment_bytes);
    case FLAG_PAYLOAD_MAX:
        return set_bytes(row, text, 1, LIMIT_PAYLOAD_MOST, &c->limits.payload_bytes_max);
    case FLAG_BODY_MAX:
        return set_bytes(row, text, 1024, LIMIT_BODY_MOST, &c->limits.body_bytes_max);
    case FLAG_CONNECTIONS_MAX:
        return set_count(row, text, &c->limits.connections_max);
    case FLAG_INFLIGHT_MAX:
        return set_count(row, text, &c->limits.inflight_max);
    case FLAG_REQUEST_TIMEOUT:
        return set_seconds(row, text, 3600, &c->limits.request_timeout_ms);
    case FLAG_IDLE_TIMEOUT:
        return set_seconds(row, text, 86400, &c->limits.idle_timeout_ms);
    case FLAG_HELP:
        break;
    }
    return true;
}

static bool read_environment(struct config *c) {
    for (size_t i = 0; i < ROWS; i++) {
        char name[64] = "NIXIE_";
        size_t n = strlen(name);
        for (const char *p = rows[i].name; *p; p++) {
            name[n] = *p;
            if (*p == '-')
                name[n] = '_';
            else if (*p >= 'a' && *p <= 'z')
                name[n] = (char)(*p - 'a' + 'A');
            n++;
        }
        const char *text = getenv(name);
        if (!text || rows[i].flag == FLAG_HELP)
            continue;
        if (!rows[i].value && (strcmp(text, "0") == 0 || !*text))
            continue;
        if (!set_flag(c, &rows[i], text)) {
            fprintf(stderr, "nixie serve: (from %s in the environment)\n", name);
            return false;
        }
    }
    return true;
}

static enum config_result read_flags(struct config *c, int argc, char **argv) {
    struct option options[ROWS + 1] = {0};
    for (size_t i = 0; i < ROWS; i++)
        options[i] = (struct option){.name = rows[i].name,
                                     .has_arg = rows[i].value ? required_argument : no_argument,
                                     .val = (int)rows[i].flag};
    optind = 1;
    opterr = 0;
    for (int flag; (flag = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (flag == 'h' || flag == FLAG_HELP) {
            print_help();
            return CONFIG_HELP;
        }
        if (flag == '?') {
            fprintf(stderr, "nixie serve: %s: unknown flag or missing value; see --help\n",
                    argv[optind - 1]);
            return CONFIG_WRONG;
        }
        for (size_t i = 0; i < ROWS; i++)
            if ((int)rows[i].flag == flag && !set_flag(c, &rows[i], optarg))
                return CONFIG_WRONG;
    }
    if (optind < argc) {
        fprintf(stderr, "nixie serve: %s: unexpected argument; see --help\n", argv[optind]);
        return CONFIG_WRONG;
    }
    return CONFIG_OK;
}

static bool is_loopback(const char *host) {
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static bool is_amqp_user(const struct config *c, struct span user) {
    if (c->amqp_user_count == 0)
        return span_equal_str(user, "guest");
    for (unsigned i = 0; i < c->amqp_user_count; i++) {
        if (span_equal(user, span_of(c->amqp_users[i], strcspn(c->amqp_users[i], ":"))))
            return true;
    }
    return false;
}

/* One for a name that nobody has would leave the one that was meant with all rights. */
static bool are_permissions_sensible(const struct config *c) {
    const char *why = NULL;
    for (unsigned i = 0; i < c->amqp_permission_count; i++) {
        const struct amqp_permission *p = &c->amqp_permissions[i];
        if (!is_amqp_user(c, p->user))
            why = "there is no such --amqp-user";
        for (unsigned k = 0; k < i; k++) {
            if (span_equal(p->user, c->amqp_permissions[k].user) &&
                span_equal(p->vhost, c->amqp_permissions[k].vhost))
                why = "is given twice for that user and vhost";
        }
        if (why != NULL) {
            fprintf(stderr, "nixie serve: --amqp-permission '%.*s %.*s ...': %s\n", (int)p->user.n,
                    (const char *)p->user.p, (int)p->vhost.n, (const char *)p->vhost.p, why);
            return false;
        }
    }
    return true;
}

/* What was given as flags goes before what the environment said. */
static void drop_first(void *items, size_t size, unsigned *count, unsigned n) {
    if (*count == n)
        return;
    *count -= n;
    memmove(items, (char *)items + n * size, *count * size);
}

static bool sensible(struct config *c) {
    if (!c->tls_cert != !c->tls_key) {
        fprintf(stderr, "nixie serve: --tls-cert and --tls-key go together\n");
        return false;
    }
    if (!are_permissions_sensible(c))
        return false;
    if (c->amqps_host && !c->tls_cert) {
        fprintf(stderr, "nixie serve: --amqps needs --tls-cert and --tls-key\n");
        return false;
    }
    c->is_open = !is_loopback(c->http_host) && !c->token;
    if (c->is_open && !c->insecure) {
        fprintf(stderr,
                "nixie serve: --http %s is reachable from other machines: set --token or "
                "--token-file, or say --insecure\n",
                c->http_host);
        return false;
    }
    if ((int64_t)c->limits.payload_bytes_max + LIMIT_AROUND_PAYLOAD > c->segment_bytes) {
        fprintf(stderr,
                "nixie serve: --payload-max %zu does not fit a segment of %" PRId64
                " bytes (--segment-bytes)\n",
                c->limits.payload_bytes_max, c->segment_bytes);
        return false;
    }
    return true;
}

enum config_result config_read(struct config *c, int argc, char **argv) {
    *c = (struct config){
        .data = "./data",
        .token_name = "token",
        .amqp_product = "RabbitMQ",
        .log_level = LOG_LEVEL_INFO,
        .segment_bytes = LOG_SEGMENT_BYTES,
        .limits = {.payload_bytes_max = LIMIT_PAYLOAD,
                   .body_bytes_max = LIMIT_BODY,
                   .connections_max = LIMIT_CONNECTIONS,
                   .inflight_max = LIMIT_INFLIGHT,
                   .request_timeout_ms = LIMIT_REQUEST_TIMEOUT_MS,
                   .idle_timeout_ms = LIMIT_IDLE_TIMEOUT_MS},
    };
    if (!set_address("http", "127.0.0.1:8072", &c->http_host, &c->http_port) ||
        !set_address("amqp", "127.0.0.1:5672", &c->amqp_host, &c->amqp_port) ||
        !read_environment(c))
        return CONFIG_WRONG;
    unsigned users = c->amqp_user_count, permissions = c->amqp_permission_count;
    enum config_result r = read_flags(c, argc, argv);
    drop_first(c->amqp_users, sizeof c->amqp_users[0], &c->amqp_user_count, users);
    drop_first(c->amqp_permissions, sizeof c->amqp_permissions[0], &c->amqp_permission_count,
               permissions);
    if (r == CONFIG_OK && !sensible(c))
        r = CONFIG_WRONG;
    return r;
}

void config_release(struct config *c) {
    free(c->http_host);
    free(c->http_port);
    free(c->amqp_host);
    free(c->amqp_port);
    free(c->amqps_host);
    free(c->amqps_port);
    free(c->token);
}
