/* Trace ids out of the headers of a message. */
#include "check.h"
#include "model/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define GOOD "00-" TRACE "-00f067aa0ba902b7-01"

static bool finds(const char *headers) {
    char id[TRACE_ID_SIZE] = "untouched";
    bool is_there = trace_id_of(span_str(headers), id);
    CHECK(strcmp(id, is_there ? TRACE : "untouched") == 0);
    return is_there;
}

static bool value_finds(const char *value) {
    char headers[256];
    snprintf(headers, sizeof headers, "{\"traceparent\":\"%s\"}", value);
    return finds(headers);
}

static void is_found_among_other_headers(void) {
    CHECK(finds("{\"traceparent\":\"" GOOD "\"}"));
    CHECK(finds("{\"a\":{\"traceparent\":1},\"Traceparent\":\"" GOOD "\",\"z\":[]}"));
    CHECK(finds(" { \"TRACEPARENT\" : \"" GOOD "\" } "));
}

static void nothing_where_there_is_none(void) {
    CHECK(!finds(""));
    CHECK(!finds("{}"));
    CHECK(!finds("{\"x\":\"" GOOD "\"}"));
    CHECK(!finds("{\"inner\":{\"traceparent\":\"" GOOD "\"}}"));
    CHECK(!finds("{\"traceparents\":\"" GOOD "\"}"));
    CHECK(!finds("{\"traceparent\":7}"));
    CHECK(!finds("{\"traceparent\":null}"));
    CHECK(!finds("[\"traceparent\",\"" GOOD "\"]"));
    CHECK(!finds("{\"traceparent\":\"" GOOD "\""));
    CHECK(!trace_id_of(span_of(NULL, 0), (char[TRACE_ID_SIZE]){0}));
}

static void form(void) {
    CHECK(value_finds(GOOD));
    CHECK(!value_finds(""));
    CHECK(!value_finds("00-" TRACE "-00f067aa0ba902b7-0"));
    CHECK(!value_finds("00-" TRACE "-00f067aa0ba902b7-011"));
    CHECK(!value_finds("00-" TRACE "-00f067aa0ba902b7-0g"));
    CHECK(!value_finds("00_" TRACE "-00f067aa0ba902b7-01"));
    CHECK(!value_finds("00-" TRACE "_00f067aa0ba902b7-01"));
    CHECK(!value_finds("00-" TRACE "-00f067aa0ba902b7_01"));
    CHECK(!value_finds("0x-" TRACE "-00f067aa0ba902b7-01"));
    CHECK(!value_finds("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"));
    CHECK(!value_finds("00-" TRACE "-00F067AA0BA902B7-01"));
    CHECK(!value_finds("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
    CHECK(!value_finds("00-" TRACE "-0000000000000000-01"));
}

static void versions(void) {
    CHECK(value_finds("01-" TRACE "-00f067aa0ba902b7-01"));
    CHECK(value_finds("fe-" TRACE "-00f067aa0ba902b7-01-more"));
    CHECK(!value_finds("00-" TRACE "-00f067aa0ba902b7-01-more"));
    CHECK(!value_finds("01-" TRACE "-00f067aa0ba902b7-01.more"));
    CHECK(!value_finds("ff-" TRACE "-00f067aa0ba902b7-01"));
}

int main(void) {
    RUN(is_found_among_other_headers);
    RUN(nothing_where_there_is_none);
    RUN(form);
    RUN(versions);
    return check_done();
}
