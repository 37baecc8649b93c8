/* Idempotency keys of messages that do not stay where they were accepted. */
#define RIG_SEGMENT_BYTES (256 * 1024)

#include "topology_rig.h"

static uint64_t enqueue_with_key(struct rig *r, const char *queue) {
    const struct message_new m = {.payload = s("once"),
                                  .idempotency_key = s("k"),
                                  .max_retries = 3,
                                  .delay_ms = -1,
                                  .ttl_ms = -1};
    struct enqueued done;
    CHECK(engine_enqueue(r->engine, r->now, s(queue), &m, 1, &done) == OK);
    return done.id;
}

static void begin(struct rig *r) {
    topology_begin(r);
    declare(r, "work", "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"other\"}");
    declare(r, "other", "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"work\"}");
}

/* Until the segment that was the oldest is gone, and what lives in it carried on. */
static void clean(struct rig *r) {
    static char text[60000];
    memset(text, 'x', sizeof text - 1);
    declare(r, "waste", "{\"x-max-length\":1}");
    uint64_t before = engine_stats(r->engine).cleaned_bytes;
    for (int i = 0; i < 100 && engine_stats(r->engine).cleaned_bytes == before; i++) {
        publish_with(r, "", "waste", NULL, text);
        rig_commit(r);
        while (engine_clean(r->engine))
            rig_commit(r);
    }
    CHECK(engine_stats(r->engine).cleaned_bytes > before);
}

static void delete_queue(struct rig *r, const char *queue) {
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_delete(r->engine, r->now, s(queue), true, &act) == OK);
}

static void gone_with_the_queue_it_went_to(void) {
    struct rig r;
    begin(&r);
    uint64_t id = enqueue_with_key(&r, "work");
    reject(&r, "work");
    CHECK(enqueue_with_key(&r, "work") == id);
    delete_queue(&r, "other");
    CHECK(enqueue_with_key(&r, "work") != id); /* before a tick has removed it */
    rig_end(&r);
}

static void outlives_a_queue_it_came_through(void) {
    struct rig r;
    begin(&r);
    uint64_t id = enqueue_with_key(&r, "work");
    reject(&r, "work");
    clean(&r);
    topology_restart(&r); /* the first that is read of it is its image in the other queue */
    reject(&r, "other");
    CHECK(enqueue_with_key(&r, "work") == id);
    delete_queue(&r, "other");
    engine_tick(r.engine, r.now);
    CHECK(engine_queue(r.engine, s("other"), &(struct queue_view){0}) == ERR_NO_QUEUE);
    CHECK(enqueue_with_key(&r, "work") == id);
    topology_restart(&r);
    CHECK(enqueue_with_key(&r, "work") == id);
    rig_end(&r);
}

int main(void) {
    RUN(gone_with_the_queue_it_went_to);
    RUN(outlives_a_queue_it_came_through);
    return check_done();
}
