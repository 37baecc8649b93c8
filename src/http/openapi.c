#include "http/openapi.h"

/* openapi.S */
extern const uint8_t openapi_bytes[];
extern const uint64_t openapi_bytes_count;

struct span openapi_text(void) {
    return span_of(openapi_bytes, openapi_bytes_count);
}
