#include "http/openapi.h"

/* openapi.S */
extern const uint8_t openapi_begin[], openapi_end[];

struct span openapi_text(void) {
    return span_of(openapi_begin, (size_t)(openapi_end - openapi_begin));
}
