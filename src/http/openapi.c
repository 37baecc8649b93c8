#include "http/openapi.h"

/* NIXIE_OPENAPI_FILE is given by meson.build. */
__asm__(".section .rodata\n"
        ".local openapi_begin\n"
        ".local openapi_end\n"
        "openapi_begin:\n"
        ".incbin \"" NIXIE_OPENAPI_FILE "\"\n"
        "openapi_end:\n"
        ".previous\n");

extern const uint8_t openapi_begin[], openapi_end[];

struct span openapi_text(void) {
    return span_of(openapi_begin, (size_t)(openapi_end - openapi_begin));
}
