/* A message and its story, for whoever shows or compares them. One thread. */
#pragma once

#include "cli/call.h"

/* "42" as an id: -1, or CLI_USAGE and said. */
int story_read_id(const struct cli *cli, const char *arg, int64_t *ret_id);

/* The message of an id, in `queue` or (NULL) wherever it is. -1 and the message, which the caller
 * frees; else the exit code, said. */
int story_get_message(struct call *r, const char *queue, int64_t id, struct json **ret_message);

/* The queue of a message the server sent: -1, or CLI_FAILED and said. */
int story_queue_of(const struct cli *cli, const struct json *message,
                   char ret_queue[static LIMIT_QUEUE_NAME + 1]);
/* Both in one. */
int story_find_queue(struct call *r, int64_t id, char ret_queue[static LIMIT_QUEUE_NAME + 1]);

/* The reply with the story of a message, as story_get_message. */
int story_get(struct call *r, const char *queue, int64_t id, struct json **ret_story);

/* The lines of that reply; NULL when it has none. */
const struct json *story_lines(const struct json *story);

/* The name of the member that says who: a person or a job, else a worker. */
const char *story_who(const struct json *line);

/* Prints the details of all lines that have one, each under its attempt. */
void story_print_details(const struct json *lines);
