/* What is taken for a time is written again as the same text. */
#include "base/clock.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span text = span_of(data, size);
    int64_t ms;
    if (time_parse(text, &ms) == OK) {
        char again[TIME_TEXT_SIZE];
        time_format(ms, again);
        assert(span_equal_str(text, again));
    }
    return 0;
}
