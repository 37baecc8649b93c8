#include "server/alerts_address.h"

#include "base/bytes.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* RFC 6890 and its successors: what is not reachable from everywhere, and multicast. */
static bool is_private_v4(uint32_t address) {
    static const struct {
        uint32_t net;
        unsigned bits;
    } nets[] = {
        {0x00000000, 8},  /* 0.0.0.0: this network */
        {0x0a000000, 8},  /* 10.0.0.0 */
        {0x64400000, 10}, /* 100.64.0.0: shared by carriers */
        {0x7f000000, 8},  /* 127.0.0.0: loopback */
        {0xa9fe0000, 16}, /* 169.254.0.0: link-local */
        {0xac100000, 12}, /* 172.16.0.0 */
        {0xc0000000, 24}, /* 192.0.0.0: protocol assignments */
        {0xc0a80000, 16}, /* 192.168.0.0 */
        {0xc6120000, 15}, /* 198.18.0.0: benchmarks */
        {0xe0000000, 3},  /* 224.0.0.0 and up: multicast, reserved, broadcast */
    };
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        if ((address ^ nets[i].net) >> (32 - nets[i].bits) == 0)
            return true;
    }
    return false;
}

static uint32_t v4_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_private_v6(const uint8_t a[static 16]) {
    static const uint8_t zeros[10];
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t nat64_local[6] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}; /* RFC 8215 */
    if (memcmp(a, zeros, 10) == 0 && (a[10] == a[11] && (a[10] == 0 || a[10] == 0xff)))
        return a[10] == 0 || is_private_v4(v4_at(a + 12)); /* ::, ::1, compatible; mapped */
    if (memcmp(a, nat64, sizeof nat64) == 0)
        return is_private_v4(v4_at(a + 12));
    if (memcmp(a, nat64_local, sizeof nat64_local) == 0)
        return true;
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return is_private_v4(v4_at(a + 2));
    return (a[0] & 0xfe) == 0xfc                      /* fc00::/7: unique local */
           || (a[0] == 0xfe && (a[1] & 0x80) == 0x80) /* fe80::/10 link-local, fec0::/10 site */
           || a[0] == 0xff;                           /* multicast */
}

bool alert_address_is_private(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return is_private_v4(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return is_private_v6(v6.sin6_addr.s6_addr);
    }
    return true;
}

static bool is_private_host(const char *host) {
    uint8_t a[16];
    if (host[0] != '[')
        return inet_pton(AF_INET, host, a) == 1 && is_private_v4(v4_at(a));
    char text[INET6_ADDRSTRLEN];
    size_t n = strcspn(host + 1, "]%"); /* without a zone */
    if (n >= sizeof text)
        return true;
    memcpy(text, host + 1, n);
    text[n] = '\0';
    return inet_pton(AF_INET6, text, a) != 1 || is_private_v6(a);
}

/* The parser of the library that will send it: two readings of one URL would be a hole. */
enum alert_url alert_url_check(const char *url) {
    enum alert_url result = ALERT_URL_BROKEN;
    CURLU *parsed = curl_url();
    char *host = NULL;
    if (parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        result = is_private_host(host) ? ALERT_URL_PRIVATE : ALERT_URL_GOOD;
    curl_free(host);
    curl_url_cleanup(parsed);
    return result;
}
