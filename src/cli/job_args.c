#include "cli/job_args.h"

#include <stdlib.h>
#include <string.h>

#define RATE_MIN 0.001
#define RATE_MAX 1e6

/* Digits with at most one point between them, and then `unit` or nothing. */
static bool parse(const char *text, const char *unit, double *ret, bool *ret_has_unit) {
    size_t whole = strspn(text, "0123456789"), part = 0;
    const char *end = text + whole;
    if (*end == '.') {
        part = strspn(end + 1, "0123456789");
        end += 1 + part;
    }
    if (whole == 0 || (end[-1] == '.') || whole + part > 18)
        return false;
    *ret = strtod(text, NULL);
    *ret_has_unit = strcmp(end, unit) == 0;
    return *ret_has_unit || *end == '\0';
}

static bool parse_rate(const char *text, double *ret) {
    bool ignored;
    return parse(text, "/s", ret, &ignored) && *ret >= RATE_MIN && *ret <= RATE_MAX;
}

static bool parse_share(const char *text, double *ret) {
    bool is_percent = false;
    if (!parse(text, "%", ret, &is_percent))
        return false;
    if (is_percent)
        *ret /= 100;
    return *ret <= 1;
}

int job_check_rate(const struct cli *cli, const char *rate) {
    double v;
    if (rate == NULL || strcmp(rate, "none") == 0 || parse_rate(rate, &v))
        return -1;
    return cli_usage_error(
        cli, "--rate %s: must be letters a second, from 0.001 to 1000000, or none", rate);
}

int job_check_stop_if(const struct cli *cli, const char *stop_if) {
    double v;
    if (stop_if == NULL || strcmp(stop_if, "never") == 0 || parse_share(stop_if, &v))
        return -1;
    return cli_usage_error(cli, "--stop-if %s: must be a share such as 5%% or 0.05, or never",
                           stop_if);
}

void job_put_rate(struct json_writer *w, const char *rate) {
    double v;
    if (rate == NULL)
        return;
    json_name(w, "rate");
    if (parse_rate(rate, &v))
        json_put_double(w, v);
    else
        json_put_null(w);
}

void job_put_stop_if(struct json_writer *w, const char *stop_if) {
    double v;
    if (stop_if == NULL)
        return;
    json_name(w, "stop_if");
    if (parse_share(stop_if, &v))
        json_put_double(w, v);
    else
        json_put_null(w);
}
