/* What stands at the beginning of a text: each function tells how many of its bytes are of a kind,
 * 0 when it begins with something else. What is before the text is the caller's to check. Private to
 * model/normalise.c. Pure; any thread. */
#pragma once

#include "base/bytes.h"

size_t token_uuid(struct span s);
/* 1234  1,234.5  1.2.3  6.02e23; begins with a digit. */
size_t token_number(struct span s);
/* 12:34:56.789  2024-01-15  2024-01-15T12:34:56Z  Mon, 15 Jan 2024 12:34:56 GMT */
size_t token_time(struct span s);
/* 30s  1.5ms  1h2m3s  PT1M30S */
size_t token_duration(struct span s);
/* With a port or a prefix length, if there is one. */
size_t token_ip4(struct span s);
size_t token_ip6(struct span s); /* or a MAC address */
size_t token_email(struct span s);
/* Any scheme with "://" after it. */
size_t token_url(struct span s);
/* /a/b  ./a  ../a  ~/a  C:\a  \\a\b */
size_t token_path(struct span s);

/* A byte of the local part of an e-mail address. */
bool token_is_local(uint8_t c);
