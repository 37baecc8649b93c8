/* Users: who may log in. PLAIN (RFC 4616) and AMQPLAIN (the specification's, a table without its
 * length). */
#include "amqp/be.h"
#include "amqp/front.h"

enum err auth_read(bool is_amqplain, struct span response, struct credentials *ret) {
    *ret = (struct credentials){0};
    if (!is_amqplain) {
        /* authorization identity (not used), NUL, user, NUL, password */
        const uint8_t *first = response.n ? memchr(response.p, 0, response.n) : NULL;
        if (first == NULL)
            return ERR_INVALID;
        struct span rest = span_of(first + 1, response.n - (size_t)(first + 1 - response.p));
        const uint8_t *second = rest.n ? memchr(rest.p, 0, rest.n) : NULL;
        if (second == NULL)
            return ERR_INVALID;
        ret->user = span_of(rest.p, (size_t)(second - rest.p));
        ret->password = span_of(second + 1, rest.n - ret->user.n - 1);
        return OK;
    }
    /* Only looked at, never decoded: a value that is none ends the walk. */
    bool has_user = false, has_password = false;
    struct table_item item;
    while (table_next(&response, &item)) {
        if (item.letter != 'S' && item.letter != 'x')
            continue;
        struct span text = span_of(item.value.p + 4, item.value.n - 4);
        if (span_equal_str(item.key, "LOGIN")) {
            ret->user = text;
            has_user = true;
        } else if (span_equal_str(item.key, "PASSWORD")) {
            ret->password = text;
            has_password = true;
        }
    }
    return has_user && has_password && response.n == 0 ? OK : ERR_INVALID;
}

/* Without telling by its time how much of the password is right. */
static bool is_same(struct span given, struct span wanted) {
    unsigned difference = given.n != wanted.n;
    for (size_t i = 0; i < given.n; i++)
        difference |= given.p[i] ^ (wanted.n > 0 ? wanted.p[i % wanted.n] : 1U);
    return difference == 0;
}

static bool is_loopback(const char *peer) {
    return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]", 5) == 0 ||
           strncmp(peer, "[::ffff:127.", 12) == 0;
}

bool auth_is_user(const struct amqp_config *config, const struct credentials *c, const char *peer) {
    if (config->user_count == 0)
        return is_loopback(peer) && span_equal_str(c->user, "guest") &&
               span_equal_str(c->password, "guest");
    bool found = false;
    for (unsigned i = 0; i < config->user_count; i++) {
        const char *user = config->users[i];
        const char *colon = strchr(user, ':');
        if (colon != NULL && span_equal(c->user, span_of(user, (size_t)(colon - user))) &&
            is_same(c->password, span_str(colon + 1)))
            found = true;
    }
    return found;
}
