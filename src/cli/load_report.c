#include "cli/load_report.h"

#include <inttypes.h>

static double per_second(uint64_t n, int64_t ns) {
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

static double us(int64_t ns) {
    return (double)ns / 1e3;
}

void load_report_json(FILE *out, const struct load_setup *setup, const struct load_script *script,
                      const struct load_result *result) {
    fprintf(
        out,
        "{\"target\":\"%s\",\"mode\":\"%s\",\"connections\":%u,\"batch\":%u,\"payload_bytes\":%zu,"
        "\"messages\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"failures\":%" PRIu64
        ",\"seconds\":%.6f,\"messages_per_second\":%.1f,\"requests_per_second\":%.1f,"
        "\"generator_cpu_seconds\":%.6f,\"latency_us\":{",
        setup->target, setup->mode, setup->connections, setup->batch, setup->payload_bytes,
        result->units, result->requests, result->failures, (double)result->elapsed_ns / 1e9,
        per_second(result->units, result->elapsed_ns),
        per_second(result->requests, result->elapsed_ns), (double)result->cpu_ns / 1e9);
    for (unsigned i = 0; i < script->step_count; i++) {
        const struct load_histogram *h = &result->steps[i];
        fprintf(out, "%s\"%s\":{\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"max\":%.2f}",
                i > 0 ? "," : "", script->step_names[i], us(load_histogram_at(h, 0.50)),
                us(load_histogram_at(h, 0.90)), us(load_histogram_at(h, 0.99)), us(h->max_ns));
    }
    fputs("}}\n", out);
}

void load_report_table(FILE *out, const struct load_setup *setup, const struct load_script *script,
                       const struct load_result *result) {
    fprintf(out, "%s %s: %u connection%s, payload %zu bytes", setup->target, setup->mode,
            setup->connections, setup->connections == 1 ? "" : "s", setup->payload_bytes);
    if (setup->batch > 1)
        fprintf(out, ", batches of %u", setup->batch);
    fputc('\n', out);
    fprintf(out,
            "%" PRIu64 " messages in %.2f s: %.0f messages/s, %.0f requests/s, %" PRIu64
            " failed\n\n",
            result->units, (double)result->elapsed_ns / 1e9,
            per_second(result->units, result->elapsed_ns),
            per_second(result->requests, result->elapsed_ns), result->failures);
    fprintf(out, "%-14s %10s %10s %10s %10s\n", "latency (us)", "p50", "p90", "p99", "max");
    for (unsigned i = 0; i < script->step_count; i++) {
        const struct load_histogram *h = &result->steps[i];
        fprintf(out, "%-14s %10.1f %10.1f %10.1f %10.1f\n", script->step_names[i],
                us(load_histogram_at(h, 0.50)), us(load_histogram_at(h, 0.90)),
                us(load_histogram_at(h, 0.99)), us(h->max_ns));
    }
}
