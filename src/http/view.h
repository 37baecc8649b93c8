/* Messages and queues as the API shows them. Loop thread. */
#pragma once

#include "base/json.h"
#include "engine/engine.h"

enum {
    VIEW_CLAIM = 1,  /* with the lease: for the one who claimed it */
    VIEW_DETAIL = 2, /* with the detail of the newest failure */
};

void view_message(const struct message_view *m, unsigned flags, int64_t now, struct json_writer *w);
void view_queue(const struct queue_view *q, struct json_writer *w);
void view_history(const struct history_entry *entry, struct json_writer *w);
