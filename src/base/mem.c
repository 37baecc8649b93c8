#include "base/mem.h"

#include "base/logging.h"

#include <stdlib.h>
#include <string.h>

void *mem_alloc(size_t n) {
    void *p = calloc(1, n > 0 ? n : 1);
    if (p == NULL)
        log_fatal("out of memory bytes=%zu", n);
    return p;
}

void *mem_grow(void *p, size_t n) {
    void *grown = realloc(p, n > 0 ? n : 1);
    if (grown == NULL)
        log_fatal("out of memory bytes=%zu", n);
    return grown;
}

char *mem_strdup(const char *s) {
    size_t size = strlen(s) + 1;
    return memcpy(mem_grow(NULL, size), s, size);
}
