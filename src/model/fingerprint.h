/* The fingerprint of a failure: which cause group a dead letter belongs to. Pure; any thread. It is
 * made at each death of a message, so it is linear in what it looks at and allocates nothing.
 *
 * The key is made of, in this order of preference:
 *   1. the queue and the fingerprint that the worker gave;
 *   2. queue, reason, error class and the top frames of the detail, when it holds a stack trace;
 *   3. queue, reason, error class and the normalised message: numbers, ids (hex, UUID), quoted
 *      values, addresses (IP, e-mail, URL, path, pointer) and times folded to placeholders.
 * How it is made is part of the key ("v1"): keys of one version never change, so links and notes
 * live on. A better way gets a new version beside it. */
#pragma once

#include "model/message.h"

#define FINGERPRINT_FRAMES 5         /* of a stack trace, from the top (where it broke) */
#define FINGERPRINT_MESSAGE_MAX 1024 /* bytes of an error message that are looked at */
#define FINGERPRINT_NORMAL_MAX 512   /* bytes of a normalised message */
#define FINGERPRINT_DETAIL_MAX 8192  /* bytes of a detail that are looked at: half at each end */
#define FINGERPRINT_TITLE_MAX 200    /* bytes of a title, cut at a character boundary */
#define GROUP_KEY_SIZE 20            /* "v1:" + 16 hex digits + NUL */

struct failure_facts {
    struct span queue;
    enum reason reason;
    struct span fingerprint; /* the worker's own, or empty */
    struct span error_class, error, detail;
};

/* The 64 bits of the key. Never 0. */
uint64_t fingerprint_v1(const struct failure_facts *f);

/* "v1:0123456789abcdef" and back. False when text is no such key. */
void group_key_write(uint64_t key, char out[static GROUP_KEY_SIZE]);
bool group_key_parse(struct span text, uint64_t *ret_key);

/* A line for people: "Timeout: connecting to <addr> took <n> ms", or the class, or the worker's
 * fingerprint, or the reason when there is nothing else. Replaces out (at most
 * FINGERPRINT_TITLE_MAX bytes, valid UTF-8 if the facts are, no control characters). */
void fingerprint_title(const struct failure_facts *f, struct buf *out);

/* -- its parts, for tests -------------------------------------------------------------------- */

/* Appends the normalised message: one line with <n>, <id>, <s>, <addr>, <email>, <url>, <path>,
 * <ptr> and <time> in it. What people wrote stays: words, names that hold digits but for those
 * digits, names of members in JSON, and numbers of at most three digits right after HTTP, status,
 * code, errno, exit, signal. A list of equal placeholders becomes one. */
void message_normalise(struct span message, struct buf *out);
/* Appends the top frames of a stack trace, where it broke first: each a line with function and file
 * name (one may be missing), without folders, line numbers, columns, addresses and generated ids:
 * a new build does not make a new cause. Appends nothing when there is no stack trace in it.
 * Knows the traces of Python, Java and Kotlin, JavaScript, Go, Ruby, PHP, .NET and Rust. Of an
 * exception with causes the root cause counts: that is what broke. Frames of the runtime itself
 * (node:internal, java.base, the standard library; not installed packages) are passed over when
 * others are there. */
void detail_frames(struct span detail, struct buf *out);
