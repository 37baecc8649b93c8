#include "server/alerts_sender.h"

#include "base/mem.h"
#include "server/alerts_address.h"
#include "server/alerts_sign.h"

#include <assert.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CALL_TIMEOUT_MS 10000L
#define BODY_BYTES_MAX (256 * 1024)
#define ANSWER_BYTES_MAX (64 * 1024) /* nobody reads it: a longer one ends the call */

/* idle -> (push) -> work -> (its thread) -> done -> (collect) -> idle */
enum stage { STAGE_IDLE, STAGE_WORK, STAGE_DONE };

struct alert_sender {
    bool private_is_fine;
    void (*wake)(void *ctx);
    void *wake_ctx;
    bool is_started;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    enum stage stage;
    bool stop, broken_off;

    /* the call, and what came of it: of the thread while it is in work, else of the loop */
    char *url;
    struct buf body, secret;
    int64_t seconds;
    uint64_t message;
    size_t answer_bytes;
    struct alert_outcome outcome;
};

/* -- one call -------------------------------------------------------------------------------- */

/* The address is looked at where it is used: a name may lead elsewhere by now. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address) {
    struct alert_sender *s = ctx;
    (void)purpose;
    if (!s->private_is_fine && alert_address_is_private(&address->addr)) {
        s->outcome.is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t drop_answer(char *bytes, size_t size, size_t n, void *ctx) {
    struct alert_sender *s = ctx;
    (void)bytes;
    s->answer_bytes += size * n;
    return s->answer_bytes > ANSWER_BYTES_MAX ? 0 : size * n;
}

static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up) {
    struct alert_sender *s = ctx;
    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    pthread_mutex_lock(&s->mutex);
    bool ends = s->stop || s->broken_off;
    pthread_mutex_unlock(&s->mutex);
    return ends ? 1 : 0;
}

static struct curl_slist *add_line(struct curl_slist *list, const char *line) {
    struct curl_slist *longer = curl_slist_append(list, line);
    assert(longer != NULL);
    return longer;
}

static struct curl_slist *call_headers(const struct alert_sender *s) {
    char line[ALERT_SIGNATURE_SIZE + 32];
    struct curl_slist *list = add_line(NULL, "Content-Type: application/json");
    list = add_line(list, "Expect:");
    snprintf(line, sizeof line, "Nixie-Message: %" PRIu64, s->message);
    list = add_line(list, line);
    if (s->secret.n > 0) {
        char signature[ALERT_SIGNATURE_SIZE];
        alert_sign(buf_span(&s->secret), s->seconds, buf_span(&s->body), signature);
        snprintf(line, sizeof line, "Nixie-Signature: %s", signature);
        list = add_line(list, line);
    }
    return list;
}

static const char *class_of(CURLcode code) {
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return "Resolve";
    if (code == CURLE_COULDNT_CONNECT)
        return "Connect";
    if (code == CURLE_OPERATION_TIMEDOUT)
        return "Timeout";
    if (code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION ||
        code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE)
        return "Tls";
    return "Transfer";
}

static void judge(struct alert_outcome *o, CURLcode code, long status, const char *error) {
    o->is_broken_off = code == CURLE_ABORTED_BY_CALLBACK;
    /* An answer that was too long is an answer. */
    bool is_answered = status != 0 && (code == CURLE_OK || code == CURLE_WRITE_ERROR);
    o->is_good = is_answered && status >= 200 && status < 300;
    if (o->is_good)
        o->is_refused = false; /* one address of the name was, another was not */
    else if (is_answered)
        snprintf(o->error_class, sizeof o->error_class, "Http%ld", status);
    else
        snprintf(o->error_class, sizeof o->error_class, "%s",
                 o->is_refused ? "AddressRefused" : class_of(code));
    if (is_answered)
        snprintf(o->error, sizeof o->error, "the receiver answered %ld", status);
    else if (o->is_refused)
        snprintf(o->error, sizeof o->error,
                 "the address is private: only a server with --alerts-private calls it");
    else
        snprintf(o->error, sizeof o->error, "%s", error[0] ? error : curl_easy_strerror(code));
}

static void call(struct alert_sender *s) {
    CURL *curl = curl_easy_init();
    assert(curl != NULL);
    char error[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = call_headers(s);
    s->answer_bytes = 0;
    s->outcome = (struct alert_outcome){0};
    curl_easy_setopt(curl, CURLOPT_URL, s->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CALL_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "nixie/" NIXIE_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, (const char *)s->body.p);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)s->body.n);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, s);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, s);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    judge(&s->outcome, code, status, error);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}

/* -- the thread ------------------------------------------------------------------------------ */

static void *run(void *arg) {
    struct alert_sender *s = arg;
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (s->stage != STAGE_WORK && !s->stop)
            pthread_cond_wait(&s->changed, &s->mutex);
        if (s->stop)
            break;
        pthread_mutex_unlock(&s->mutex);
        call(s);
        pthread_mutex_lock(&s->mutex);
        s->stage = STAGE_DONE;
        pthread_mutex_unlock(&s->mutex);
        s->wake(s->wake_ctx);
        pthread_mutex_lock(&s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

struct alert_sender *alert_sender_new(bool private_is_fine, void (*wake)(void *ctx), void *ctx) {
    struct alert_sender *s = mem_alloc(sizeof *s);
    s->private_is_fine = private_is_fine;
    s->wake = wake;
    s->wake_ctx = ctx;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    buf_init(&s->body, BODY_BYTES_MAX);
    buf_init(&s->secret, BODY_BYTES_MAX);
    return s;
}

static void start(struct alert_sender *s) {
    CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    assert(code == CURLE_OK);
    int e = pthread_create(&s->thread, NULL, run, s);
    assert(e == 0);
    s->is_started = true;
}

void alert_sender_free(struct alert_sender *s) {
    if (s == NULL)
        return;
    if (s->is_started) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->thread, NULL);
        curl_global_cleanup();
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s->url);
    buf_release(&s->body);
    buf_release(&s->secret);
    free(s);
}

void alert_sender_push(struct alert_sender *s, const struct alert_call *call_to_make) {
    if (!s->is_started)
        start(s);
    pthread_mutex_lock(&s->mutex);
    assert(s->stage == STAGE_IDLE && call_to_make->body.n <= BODY_BYTES_MAX);
    free(s->url);
    s->url = mem_strdup(call_to_make->url);
    buf_clear(&s->body);
    buf_add_span(&s->body, call_to_make->body);
    buf_clear(&s->secret);
    buf_add_span(&s->secret, call_to_make->secret);
    s->seconds = call_to_make->seconds;
    s->message = call_to_make->message;
    s->broken_off = false;
    s->stage = STAGE_WORK;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

bool alert_sender_collect(struct alert_sender *s, struct alert_outcome *ret) {
    pthread_mutex_lock(&s->mutex);
    bool is_done = s->stage == STAGE_DONE;
    if (is_done) {
        s->stage = STAGE_IDLE;
        *ret = s->outcome;
    }
    pthread_mutex_unlock(&s->mutex);
    return is_done;
}

void alert_sender_break(struct alert_sender *s) {
    pthread_mutex_lock(&s->mutex);
    s->broken_off = true;
    pthread_mutex_unlock(&s->mutex);
}
