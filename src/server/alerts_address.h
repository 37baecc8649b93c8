/* Which addresses a webhook may go to. Whoever may set a policy could else have the server knock at
 * its neighbours: unless it was started with --alerts-private, only addresses of the public network
 * are good. Any thread.
 *
 * Asked twice: of a literal address when a policy is set (a name is not looked up in a request), and
 * of every socket before it is connected, whatever the name has become since. */
#pragma once

#include <stdbool.h>

struct sockaddr;

/* Private, shared, loopback, link-local, multicast, reserved or unspecified; also an IPv6 address that
 * stands for such an IPv4 one, and any family that is neither. */
bool alert_address_is_private(const struct sockaddr *address);

enum alert_url { ALERT_URL_GOOD, ALERT_URL_PRIVATE, ALERT_URL_BROKEN };
/* The address in the URL, however it is written (0x7f.1 is 127.0.0.1); a name is good. */
enum alert_url alert_url_check(const char *url);
