/*
 * Random calls of the whole C interface, from several threads and from callbacks, with arguments of
 * every kind; see README.md.
 *
 * The caller's obligations are met: a handle in use is not destroyed, a destroyed one is not used,
 * and memory has the stated size. Everything else is random.
 */
#ifndef UCXX_RS_HOSTILE_H
#define UCXX_RS_HOSTILE_H
#include "test_util.h"

#include "calls.h"

enum {
  PLACES = 48,
  TAKEN = 96,
  SCRATCH = 4096,
  SOURCE_BYTES = 2 << 20,
  SINK_BYTES = 4 << 20,
  LIST = 8,
  MIDDLE = 1 << 20,
  GIVEN_BYTES = 65536
};

/* A slot for a handle. `users` is the number of calls that use it, or -1: one call exclusively. */
typedef struct slot {
  void *handle;
  struct slot *home; /* its worker, which is not destroyed while a call uses this handle */
  int users;
  int serial; /* one call at a time, for calls that the contract serialises */
  int pinned; /* lives as long as the round */
  int exposure; /* for a window: POSTED and so on */
  kind_t kind;
} slot_t;

/* Counts the callbacks of an operation, an endpoint or a handler, and how many are allowed. Kept
 * until the round is over. */
typedef struct record {
  struct record *next;
  const char *function;
  int told, least, most;
  int opened, freed, frees; /* on_open; destroy_arg, and how often it must run */
  slot_t *home;
  uint64_t seed;
  ucxx_recv_info_t info;
} record_t;

typedef struct caller {
  uint64_t random;
  const char *function; /* the current call */
  uint64_t calls;
  int depth; /* 1 in a callback */
  slot_t *home;
  slot_t *taken[TAKEN];
  uint8_t alone[TAKEN], serial[TAKEN];
  int taken_count;
  record_t *record; /* of the current operation, endpoint or handler */
  record_t *second; /* of a handler's allocator, if any */
  int in_struct; /* a wrong struct was drawn */
  ucxx_op_params_t *op;
  union {
    uint64_t align;
    uint8_t bytes[SCRATCH];
  } scratch[4];
  int scratch_count;
  ucxx_buffer_t list[LIST];
  ucxx_block_t blocks[LIST];
  uint32_t ranks[LIST];
  void *handles[LIST * 10];
  ucxx_config_entry_t config[2];
} caller_t;

/* Every function of the header, except those that generate.py skips. */
typedef struct call {
  const char *name;
  unsigned weight;
  void (*run)(caller_t *c);
} call_t;
extern const call_t calls[];
extern const unsigned call_count;
void destroy_handle(kind_t kind, void *handle);

/* pools.c */
extern slot_t pools[KINDS][PLACES];
void *take(caller_t *c,
           kind_t kind); /* shared with other calls; NULL now and then, or if there is none */
void *take_alone(caller_t *c, kind_t kind); /* exclusive; NULL if there is none */
void *take_serial(caller_t *c,
                  kind_t kind); /* shared with calls other than those that also take it this way */
slot_t *last_taken(caller_t *c);
void gone(caller_t *c); /* the handle taken first has been destroyed */
void keep(caller_t *c, kind_t kind, void *handle);
slot_t *keep_at(slot_t *home, kind_t kind, void *handle, int pinned);
void leave(caller_t *c);
int held(kind_t kind);

/* draw.c */
uint64_t draw(caller_t *c, uint64_t below);
int one_in(caller_t *c, uint64_t times);
void *scratch(caller_t *c);
const void *source(caller_t *c, size_t *length);
void *sink(caller_t *c, size_t *length);
const void *header_bytes(caller_t *c, size_t *length);
void *range(caller_t *c, size_t *length);
const void *source_middle(caller_t *c);
void *sink_middle(caller_t *c);
const void *word(caller_t *c);
const ucxx_buffer_t *list_of(caller_t *c, int into, size_t *count);
const uint32_t *rank_list(caller_t *c, size_t *count);
void **handles(caller_t *c, kind_t kind, int alone, size_t *count);
uint64_t number(caller_t *c, uint64_t usual);
size_t huge_or(caller_t *c, size_t usual); /* sometimes more than can exist */
int64_t signed_number(caller_t *c, int64_t usual);
int32_t one_of(caller_t *c, int32_t least, int32_t most); /* and now and then outside the range */
uint64_t some_time(caller_t *c);
int32_t memory_type(caller_t *c);
uint32_t assertions(caller_t *c);
const char *host(caller_t *c);
const char *owner(caller_t *c);
uint16_t port(caller_t *c);
const void *bytes_of(caller_t *c, int what, size_t *length);
void *out_struct(caller_t *c, size_t known);
size_t some_size(caller_t *c);

/* params.c */
const ucxx_op_params_t *op(caller_t *c);
const ucxx_context_params_t *context_params(caller_t *c);
const ucxx_worker_params_t *worker_params(caller_t *c);
const ucxx_endpoint_params_t *endpoint_params(caller_t *c);
const ucxx_listener_params_t *listener_params(caller_t *c);
const ucxx_allocator_t *allocator(caller_t *c);
const ucxx_am_queue_cover_t *am_queue_cover(caller_t *c);
const ucxx_group_params_t *group_params(caller_t *c);
const ucxx_window_params_t *window_params(caller_t *c);
const ucxx_hub_params_t *hub_params(caller_t *c);
const ucxx_link_params_t *link_params(caller_t *c);
const ucxx_layout_t *layout(caller_t *c, int wild);
ucxx_memory_kind_t memory_kind(caller_t *c);

/* callbacks.c */
extern int over; /* the round is over: callbacks call nothing any more */
record_t *new_record(caller_t *c);
int check_records(void); /* frees them too; returns how many are wrong */
void tell(record_t *record);
void call_back(record_t *record);
void on_request(void *arg, ucxx_request_t *request, ucxx_status_t status);
void on_open(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);
void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);
void on_writable(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);
void on_connect(void *arg, ucxx_conn_request_t *conn_request);
void on_am(void *arg, ucxx_am_message_t *message);
void on_fetch(void *arg, ucxx_fetch_t *fetch);
void on_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
              ucxx_buffers_t *buffers, ucxx_status_t status);
void on_free(void *arg);
void on_run(void *arg);
void on_line(void *arg, const char *text);
void on_variable(void *arg, const char *key, const char *value);
void on_log(void *arg, int32_t level, const char *component, const char *message);
void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status);
void on_buffer_gone(void *arg, void *data);
ucxx_status_t on_allocate(void *arg, size_t length, int32_t memory_type, int32_t device_id,
                          void **data);
void on_deallocate(void *arg, void *data, size_t length, int32_t memory_type, int32_t device_id);
ucxx_status_t on_allgather(void *arg, const void *data, size_t length, void *out);
void free_taken(void *data); /* a buffer from ucxx_buffers_take */
int allocations_left(void);

/* special.c: obligations of the caller beyond types */
void polled(const ucxx_completion_t *completions, size_t count);
int may_start(slot_t *window, size_t count);
int may_wait(slot_t *window);
void exposure_changed(slot_t *window, const char *function, ucxx_status_t status, size_t count,
                      int32_t done);

/* hostile.c */
#define MARK ((void *)&marker)
extern char marker;
void begin(caller_t *c, const char *function);
/* Checks the status: an error has a message of its own; `answers` are statuses that are no
 * failures. */
void judge(caller_t *c, ucxx_status_t status);
void unwritten(caller_t *c, int written);
void one_call(caller_t *c);
extern uint64_t round_seed;
#endif
