/*
 * Bad input, as one table. A row is a line in one of the bad_input_*.inc files:
 *
 *   ROW(name, expected status, word that the message has to contain, expression)
 *
 * The expression uses the fixture as `f` and returns the status. After each row the driver checks:
 * - the status and the message
 * - no out-parameter was written by a failed call
 * - the memory that peers can access has not changed
 * - the worker still transfers
 *
 * To add a group, add its .inc, a bad_input_GROUP.c that includes bad_input_table.h, and its name
 * in GROUPS in bad_input.c.
 */
#ifndef UCXX_RS_BAD_INPUT_H
#define UCXX_RS_BAD_INPUT_H
#include "test_util.h"

/* As the expected status: any error. */
#define ANY_ERROR INT32_MIN
/* Returned by a row that cannot run with the available transports. */
#define LEFT_OUT INT32_MAX

enum { BYTES = 4096, SIZED_ROOM = 1024, REMOTE_BYTES = 4096 };

/* Registered and allocated memory. The peer sees the bytes of allocated memory only, and only if
 * shared memory is in use. */
enum remote { REGISTERED, ALLOCATED, REMOTES };

typedef struct fixture {
  duo_t duo;
  ucxx_context_t *context; /* duo's */
  ucxx_worker_t *worker; /* duo.left */
  ucxx_endpoint_t *endpoint; /* duo.to_right */
  ucxx_endpoint_t *closed; /* an endpoint of `worker` that has been closed */
  ucxx_request_t *pending; /* a receive on `worker` that nothing matches */
  duo_t bare; /* made with the feature AM alone */
  struct {
    ucxx_memory_t *memory; /* created from `context` */
    uint8_t *bytes; /* of `memory`; filled from the seed, and checked after each row */
    ucxx_rkey_t *rkey; /* for `memory`, on `endpoint` */
    ucxx_rkey_t *closed; /* for `memory`, on `closed` */
  } remote[REMOTES];
  ucxx_op_params_t op;
  union {
    size_t struct_size;
    uint64_t align;
    uint8_t bytes[SIZED_ROOM];
  } sized;
  uint8_t bytes[BYTES];
  /* Out-parameters: filled with a pattern before each row. */
  struct {
    ucxx_context_t *context;
    ucxx_worker_t *worker;
    ucxx_address_t *address;
    ucxx_endpoint_t *endpoint;
    ucxx_request_t *request;
    ucxx_tag_message_t *message;
    ucxx_notifier_t *notifier;
    ucxx_listener_t *listener;
    ucxx_memory_t *memory;
    ucxx_rkey_t *rkey;
    void *pointer;
  } out;
} fixture_t;

typedef struct bad_input_row {
  const char *name;
  ucxx_status_t (*run)(fixture_t *f);
  ucxx_status_t expected;
  const char *word;
} bad_input_row_t;

/* Operation parameters with one field set; they live in the fixture. */
const ucxx_op_params_t *op_flags(fixture_t *f, uint64_t flags);
const ucxx_op_params_t *op_flags_callback(fixture_t *f, uint64_t flags);
const ucxx_op_params_t *op_memory(fixture_t *f, int32_t memory_type);
/* Fills two entries with this data and length. */
void fill_entries(ucxx_buffer_t *entries, void *data, uint64_t length, int32_t memory_type);
/* Restores the contents of the memory. */
void fill_remote(fixture_t *f, enum remote which);
/* A zeroed struct with this struct_size; if nonzero_at is not 0, that byte is 1. */
void *sized(fixture_t *f, size_t struct_size, size_t nonzero_at);
/* An output struct of `known` bytes with garbage behind it, which the call must zero. */
ucxx_status_t sized_output(fixture_t *f, size_t known,
                           ucxx_status_t (*query)(fixture_t *f, void *out));

/* Rows for a params struct. TRY is a function (fixture, params) that undoes its effect on
 * success. */
#define SIZE_ROWS(prefix, type, TRY) GROWN_SIZE_ROWS(prefix, type, sizeof(type), TRY)

/* The same for a struct that once had only `first` bytes. */
#define GROWN_SIZE_ROWS(prefix, type, first, TRY)                                     \
  ROW(prefix##_size_first, UCXX_OK, NULL, TRY(f, sized(f, first, 0)))                 \
  ROW(prefix##_size_0, UCXX_ERR_INVALID_PARAM, "struct_size", TRY(f, sized(f, 0, 0))) \
  ROW(prefix##_size_small, UCXX_ERR_INVALID_PARAM, "struct_size",                     \
      TRY(f, sized(f, (first) - 8, 0)))                                               \
  ROW(prefix##_size_huge, UCXX_ERR_INVALID_PARAM, "struct_size",                      \
      TRY(f, sized(f, SIZE_MAX, sizeof(type))))                                       \
  ROW(prefix##_size_dirty_tail, UCXX_ERR_INVALID_PARAM, "struct_size",                \
      TRY(f, sized(f, sizeof(type) + 64, sizeof(type) + 63)))                         \
  ROW(prefix##_size_clean_tail, UCXX_OK, NULL, TRY(f, sized(f, sizeof(type) + 64, 0)))

#define OUTPUT_SIZE_ROWS(prefix, type, QUERY) GROWN_OUTPUT_ROWS(prefix, type, sizeof(type), QUERY)

/* The same for a struct that once had only `first` bytes. */
#define GROWN_OUTPUT_ROWS(prefix, type, first, QUERY)                                   \
  ROW(prefix##_size_first, UCXX_OK, NULL, QUERY(f, sized(f, first, 0)))                 \
  ROW(prefix##_size_0, UCXX_ERR_INVALID_PARAM, "struct_size", QUERY(f, sized(f, 0, 0))) \
  ROW(prefix##_size_small, UCXX_ERR_INVALID_PARAM, "struct_size",                       \
      QUERY(f, sized(f, (first) - 8, 0)))                                               \
  ROW(prefix##_size_huge, UCXX_ERR_INVALID_PARAM, "struct_size",                        \
      QUERY(f, sized(f, SIZE_MAX, sizeof(type))))                                       \
  ROW(prefix##_size_tail_zeroed, UCXX_OK, NULL, sized_output(f, sizeof(type), QUERY))

/* Rows for operations whose last arguments are (params, request) and that take no flags of active
 * messages. */
#define OPERATION_ROWS(prefix, TRY)                                                               \
  PLAIN_OPERATION_ROWS(prefix, TRY)                                                               \
  ROW(prefix##_flag_eager, UCXX_ERR_INVALID_PARAM, "flags", TRY(f, op_flags(f, UCXX_FLAG_EAGER))) \
  ROW(prefix##_flag_rndv, UCXX_ERR_INVALID_PARAM, "flags", TRY(f, op_flags(f, UCXX_FLAG_RNDV)))   \
  ROW(prefix##_flag_reply, UCXX_ERR_INVALID_PARAM, "flags", TRY(f, op_flags(f, UCXX_FLAG_AM_REPLY)))

/* The same for operations that take them. */
#define PROTOCOL_ROWS(prefix, TRY)                                              \
  ROW(prefix##_flag_eager, UCXX_OK, NULL, TRY(f, op_flags(f, UCXX_FLAG_EAGER))) \
  ROW(prefix##_flag_rndv, UCXX_OK, NULL, TRY(f, op_flags(f, UCXX_FLAG_RNDV)))   \
  ROW(prefix##_flag_both, UCXX_ERR_INVALID_PARAM, "EAGER",                      \
      TRY(f, op_flags(f, UCXX_FLAG_EAGER | UCXX_FLAG_RNDV)))                    \
  ROW(prefix##_flag_reply, UCXX_OK, NULL, TRY(f, op_flags(f, UCXX_FLAG_AM_REPLY)))

#define PLAIN_OPERATION_ROWS(prefix, TRY)                                                       \
  SIZE_ROWS(prefix, ucxx_op_params_t, TRY)                                                      \
  ROW(prefix##_flag_unknown, UCXX_ERR_INVALID_PARAM, "flags",                                   \
      TRY(f, op_flags(f, UINT64_C(1) << 30)))                                                   \
  ROW(prefix##_flag_highest, UCXX_ERR_INVALID_PARAM, "flags",                                   \
      TRY(f, op_flags(f, UINT64_C(1) << 63)))                                                   \
  ROW(prefix##_flag_partial, UCXX_ERR_INVALID_PARAM, "flags",                                   \
      TRY(f, op_flags(f, UCXX_FLAG_STREAM_PARTIAL)))                                            \
  ROW(prefix##_wait_callback, UCXX_ERR_INVALID_PARAM, "WAIT",                                   \
      TRY(f, op_flags_callback(f, UCXX_FLAG_WAIT)))                                             \
  ROW(prefix##_wait_always, UCXX_ERR_INVALID_PARAM, "WAIT",                                     \
      TRY(f, op_flags(f, UCXX_FLAG_WAIT | UCXX_FLAG_ALWAYS_CALLBACK)))                          \
  ROW(prefix##_memory_type_99, UCXX_ERR_INVALID_PARAM, "memory_type", TRY(f, op_memory(f, 99))) \
  ROW(prefix##_memory_type_negative, UCXX_ERR_INVALID_PARAM, "memory_type",                     \
      TRY(f, op_memory(f, -1)))
#endif
