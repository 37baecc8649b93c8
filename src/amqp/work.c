/* The end of a turn: what the input of all connections amounts to is done together. */
#include "amqp/front.h"
#include "model/envelope.h"

#include "base/mem.h"

#include <stdlib.h>

void amqp_work_init(struct amqp *a) {
    a->scheduled_last = &a->scheduled_first;
    a->envelope = mem_alloc(sizeof *a->envelope);
    settling_init(a);
}

static void forget_scheduled(struct amqp *a) {
    for (struct amqp_queue *q = a->scheduled_first, *next; q != NULL; q = next) {
        next = q->next_scheduled;
        q->is_scheduled = false;
        registry_release(q);
    }
    a->scheduled_first = NULL;
    a->scheduled_last = &a->scheduled_first;
}

void amqp_work_release(struct amqp *a) {
    settling_release(a);
    forget_scheduled(a);
    for (unsigned i = 0; i < a->bucket_count; i++) {
        for (struct amqp_queue *q = a->buckets[i], *next; q != NULL; q = next) {
            next = q->next_of_bucket;
            registry_unwatch(q);
            free(q);
        }
    }
    free(a->buckets);
    free(a->watched);
    free(a->envelope);
}

bool amqp_work(struct amqp *a) {
    bool is_settling = deliveries_settle_rest(a);
    settling_flush(a);
    while (a->unconfirmed != NULL)
        confirms_write(a->unconfirmed);
    bool has_more = queues_deliver(a);
    settling_flush(a); /* of consumers that do not acknowledge */
    return has_more || is_settling;
}
