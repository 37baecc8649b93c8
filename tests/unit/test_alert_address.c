/* Which addresses a webhook may not go to: at the edges of each range, and however they are written. */
#include "check.h"

#include "server/alerts_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

static bool is_private(const char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return alert_address_is_private((const struct sockaddr *)&v4);
    bool is_read = inet_pton(AF_INET6, text, &v6.sin6_addr) == 1;
    CHECK(is_read);
    return alert_address_is_private((const struct sockaddr *)&v6);
}

static void are(const char *const *texts, bool wanted) {
    for (; *texts != NULL; texts++) {
        if (is_private(*texts) != wanted)
            printf("# %s\n", *texts);
        CHECK(is_private(*texts) == wanted);
    }
}

static void addresses_of_version_4(void) {
    static const char *const private[] = {
        "0.0.0.0",     "0.255.255.255",   "10.0.0.0",    "10.255.255.255",
        "100.64.0.0",  "100.127.255.255", "127.0.0.1",   "127.255.255.255",
        "169.254.0.0", "169.254.169.254", "172.16.0.0",  "172.31.255.255",
        "192.0.0.0",   "192.0.0.255",     "192.168.0.0", "192.168.255.255",
        "198.18.0.0",  "198.19.255.255",  "224.0.0.1",   "239.255.255.255",
        "240.0.0.1",   "255.255.255.255", NULL};
    static const char *const public[] = {
        "1.0.0.0",     "9.255.255.255",   "11.0.0.0",      "100.63.255.255",
        "100.128.0.0", "126.255.255.255", "128.0.0.0",     "169.253.255.255",
        "169.255.0.0", "172.15.255.255",  "172.32.0.0",    "191.255.255.255",
        "192.0.1.0",   "192.167.255.255", "192.169.0.0",   "198.17.255.255",
        "198.20.0.0",  "223.255.255.255", "93.184.216.34", NULL};
    are(private, true);
    are(public, false);
}

static void addresses_of_version_6(void) {
    static const char *const private[] = {"::",      "::1",     "fc00::1", "fdff:ffff::1",
                                          "fe80::1", "febf::1", "fec0::1", "ff02::1",
                                          "ff0e::1", NULL};
    static const char *const public[] = {
        "2606:2800:220:1::1", "2a00::1", "fbff::1", "fe00::1", "fe7f::1", NULL};
    are(private, true);
    are(public, false);
}

/* Mapped, compatible, NAT64, 6to4: each leads to the address inside. */
static void addresses_of_version_6_that_stand_for_version_4(void) {
    static const char *const private[] = {
        "::ffff:127.0.0.1",  "::ffff:10.1.2.3",    "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",    "::ffff:224.0.0.1",   "::127.0.0.1",
        "::93.184.216.34", /* compatible: never routed */
        "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::5db8:d822",
        "2002:7f00:1::",     "2002:a9fe:a9fe::1",  NULL};
    static const char *const public[] = {"::ffff:93.184.216.34", "64:ff9b::93.184.216.34",
                                         "2002:5db8:d822::1", NULL};
    are(private, true);
    are(public, false);
}

static void other_families(void) {
    const struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    CHECK(alert_address_is_private((const struct sockaddr *)&local));
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    CHECK(alert_address_is_private(&none));
}

static void urls(void) {
    static const struct {
        const char *url;
        enum alert_url is;
    } cases[] = {
        {"https://example.org/hook", ALERT_URL_GOOD},
        {"https://93.184.216.34:8443/", ALERT_URL_GOOD},
        {"https://[2606:2800:220:1::1]/", ALERT_URL_GOOD},
        {"https://localhost/", ALERT_URL_GOOD}, /* a name: it is looked at when it is called */
        {"http://127.0.0.1/", ALERT_URL_PRIVATE},
        {"http://user:word@10.0.0.1:80/", ALERT_URL_PRIVATE},
        {"http://0x7f.1/", ALERT_URL_PRIVATE},
        {"http://0x7f000001/", ALERT_URL_PRIVATE},
        {"http://2130706433/", ALERT_URL_PRIVATE},
        {"http://017700000001/", ALERT_URL_PRIVATE},
        {"http://127.1/", ALERT_URL_PRIVATE},
        {"http://0/", ALERT_URL_PRIVATE},
        {"http://169.254.169.254/latest/", ALERT_URL_PRIVATE},
        {"http://[::1]/", ALERT_URL_PRIVATE},
        {"http://[::]/", ALERT_URL_PRIVATE},
        {"http://[fe80::1%25eth0]/", ALERT_URL_PRIVATE},
        {"http://[::ffff:127.0.0.1]/", ALERT_URL_PRIVATE},
        {"http://[::ffff:7f00:1]/", ALERT_URL_PRIVATE},
        {"http://224.0.0.1/", ALERT_URL_PRIVATE},
        {"", ALERT_URL_BROKEN},
        {"http://[::1/", ALERT_URL_BROKEN},
        {"http://example.org:99999/", ALERT_URL_BROKEN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (alert_url_check(cases[i].url) != cases[i].is)
            printf("# %s\n", cases[i].url);
        CHECK_EQ(alert_url_check(cases[i].url), cases[i].is);
    }
}

int main(void) {
    RUN(addresses_of_version_4);
    RUN(addresses_of_version_6);
    RUN(addresses_of_version_6_that_stand_for_version_4);
    RUN(other_families);
    RUN(urls);
    return check_done();
}
