/* What `nixie serve` is told: flags, each also as NIXIE_<FLAG> in the environment; a flag wins.
 * Start only. */
#pragma once

#include "amqp/amqp.h"
#include "base/limits.h"
#include "base/logging.h"
#include "server/server.h"

#include <stdbool.h>

struct config {
    char *http_host, *http_port;
    char *amqp_host, *amqp_port; /* NULL: off */
    bool amqp_is_asked_for;      /* not just by default */
    char *amqps_host, *amqps_port;
    const char *amqp_product;
    const char *amqp_users[LIMIT_AMQP_USERS]; /* USER:PASSWORD */
    unsigned amqp_user_count;
    struct amqp_permission amqp_permissions[LIMIT_AMQP_PERMISSIONS];
    unsigned amqp_permission_count;
    const char *data;
    bool durability_none;
    char *token; /* NULL: none */
    const char *token_name;
    const char *tls_cert, *tls_key;
    bool insecure, alerts_private, test_clock;
    bool is_open; /* other machines can reach it, and it asks for no token */
    enum log_level log_level;
    struct server_limits limits;
    int64_t segment_bytes, data_bytes_max;
};

enum config_result { CONFIG_OK, CONFIG_HELP, CONFIG_WRONG };

/* Reads the arguments after "serve". CONFIG_HELP: help was printed to stdout. CONFIG_WRONG: what is
 * wrong was said on stderr. */
enum config_result config_read(struct config *c, int argc, char **argv);
void config_release(struct config *c);
