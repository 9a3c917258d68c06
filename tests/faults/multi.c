/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Multi-buffer transfer in both forms. A message's frames are derived from its label, which is the
 * first frame by tag and the header of an active message. So the receiver knows the length and the
 * contents of every frame, and which message it should be.
 */
#include "actor.h"

enum { MULTI = 18, MOST_FRAMES = 127, SHELF = 4, STREAMS = 64, ANSWER_TAG = 6, ANSWER_BYTES = 64 };

typedef struct label {
  /* numbers that identify a sender's streams, and the messages of each */
  uint64_t sender, stream, number;
  uint64_t count, largest, check;
} label_t;

struct transfer {
  label_t label; /* for a receive: the expected label */
  /* Receives match messages in the order of posting. After a cancelled one, a message may match a
   * later receive. */
  bool in_order, sends, overwritten;
  uint64_t tag;
  ucxx_recv_info_t info;
  ucxx_buffer_t list[MOST_FRAMES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ucxx_buffers_t *shelf[SHELF];
static size_t shelved;
static uint64_t own_number, expected, registered, unregistered;
static enum { READ, KEEP, TAKE, MIXED_UP } with_frames;
/* The next number of each sender's active messages. */
static struct {
  uint64_t sender, stream, next;
} streams[STREAMS];

/* ------------------------------------------------------------------ the frames of a message */

static uint64_t check_of(const label_t *label) {
  return mix(label->sender ^
             mix(label->stream ^ mix(label->number ^ mix(label->count ^ mix(label->largest)))));
}

/* Many are short, some empty, a few as long as allowed. */
static size_t frame_length(const label_t *label, bool tagged, size_t index) {
  static const uint64_t limits[] = {0, 300, 300, 300, 300, 8192, 8192, UINT64_MAX};
  uint64_t random = mix(label->check + index), limit = limits[random % 8];
  if (tagged && index == 0) return sizeof *label;
  return (size_t)((random >> 8) % ((limit < label->largest ? limit : label->largest) + 1));
}

static uint64_t sequence_of(const label_t *label, size_t index) {
  return label->number << 7 | index;
}

static void examine_frame(const label_t *label, size_t index, const ucxx_buffer_t *frame,
                          unsigned of) {
  static const char *const names[] = {"intact", "scribbled", "mixed"};
  size_t where = 0;
  enum verdict verdict = INTACT;
  bool right = message_is(frame->data, frame->length, label->sender, sequence_of(label, index));
  if (frame->length >= 8)
    verdict = message_check(frame->data, frame->length, &where);
  else if (!right)
    verdict =
        scribble_stands(frame->data, frame->length, SCRIBBLE_SENT, &where) ? SCRIBBLED : MIXED;
  if (verdict != INTACT)
    violation("integrity",
              "verdict=%s group=%u frame=%zu of=%" PRIu64 " length=%" PRIu64 " where=%zu",
              names[verdict], of, index, label->count, frame->length, where);
  else if (!right)
    violation("integrity", "frame_of_another=1 group=%u frame=%zu of=%" PRIu64 " message=%" PRIu64,
              of, index, label->count, label->number);
}

/* Checks all frames; returns their total length. */
static uint64_t examine(const ucxx_buffers_t *buffers, const label_t *label, bool tagged,
                        unsigned of) {
  uint64_t bytes = 0;
  if (ucxx_buffers_count(buffers) != label->count)
    violation("integrity", "group=%u frames=%zu sent=%" PRIu64, of, ucxx_buffers_count(buffers),
              label->count);
  for (size_t index = 0; index < ucxx_buffers_count(buffers) && index < label->count; index++) {
    ucxx_buffer_t frame = {0};
    ucxx_status_t status = ucxx_buffers_get(buffers, index, &frame);
    size_t length = frame_length(label, tagged, index);
    bytes += frame.length;
    if (status != UCXX_OK || frame.length != length || (frame.data == NULL) != (length == 0))
      violation("integrity", "group=%u frame=%zu status=%s length=%" PRIu64 " sent=%zu", of, index,
                short_name(status), frame.length, length);
    else if (length > 0 && !(tagged && index == 0))
      examine_frame(label, index, &frame, of);
  }
  return bytes;
}

static bool label_holds(const void *data, size_t length, label_t *label, unsigned of) {
  size_t where = 0;
  if (length == sizeof *label) memcpy(label, data, length);
  if (length == sizeof *label && label->check == check_of(label) && label->count <= MOST_FRAMES)
    return true;
  violation("integrity", "verdict=%s group=%u label=1 length=%zu",
            length == sizeof *label && scribble_stands(data, length, SCRIBBLE_SENT, &where)
                ? "scribbled"
                : "mixed",
            of, length);
  return false;
}

/* ------------------------------------------------------------------ received buffers */

static void overwrite(const ucxx_buffers_t *buffers) {
  ucxx_buffer_t frame;
  for (size_t index = 0; ucxx_buffers_get(buffers, index, &frame) == UCXX_OK; index++)
    if (frame.data != NULL) memset(frame.data, SCRIBBLE_RECEIVED, frame.length);
}

static void let_go(ucxx_buffers_t *buffers) {
  ucxx_buffer_t frame;
  size_t where = 0;
  for (size_t index = 0; buffers != NULL && ucxx_buffers_get(buffers, index, &frame) == UCXX_OK;
       index++)
    if (!scribble_stands(frame.data, frame.length, SCRIBBLE_RECEIVED, &where))
      violation("integrity",
                "written_after_completion=1 kind=frame index=%zu length=%" PRIu64 " where=%zu",
                index, frame.length, where);
  ucxx_buffers_destroy(buffers);
}

/* After the check: keeps them, takes them one by one, or destroys them. */
static void dispose(ucxx_buffers_t *buffers, uint64_t chance) {
  int what = with_frames == MIXED_UP ? (int)(chance % 3) : (int)with_frames;
  if (what == KEEP) {
    overwrite(buffers);
    pthread_mutex_lock(&lock);
    ucxx_buffers_t *oldest = shelf[shelved % SHELF];
    shelf[shelved++ % SHELF] = buffers;
    pthread_mutex_unlock(&lock);
    let_go(oldest);
    return;
  }
  ucxx_buffer_t frame;
  for (size_t index = 0; what == TAKE && ucxx_buffers_take(buffers, index, &frame) == UCXX_OK;
       index += 2)
    if (frame.data != NULL) buffers_free(frame.data, frame.length);
  ucxx_buffers_destroy(buffers);
}

static void received(transfer_t *transfer, unsigned of, ucxx_buffers_t *buffers) {
  ucxx_buffer_t first = {0};
  label_t label = {0};
  if (ucxx_buffers_get(buffers, 0, &first) != UCXX_OK) {
    violation("integrity", "group=%u frames=0", of);
    return;
  }
  if (!label_holds(first.data, first.length, &label, of)) return;
  uint64_t bytes = examine(buffers, &label, true, of);
  if (bytes != transfer->info.length ||
      (transfer->info.sender_tag ^ transfer->tag) & ~UINT64_C(0xf))
    violation("integrity", "group=%u bytes=%" PRIu64 " told=%" PRIu64 " tag=%#" PRIx64, of, bytes,
              transfer->info.length, transfer->info.sender_tag);
  if (label.stream != transfer->label.stream || label.number > transfer->label.number ||
      (transfer->in_order && label.number != transfer->label.number))
    violation("completion", "group=%u receive=%" PRIu64 " got=%" PRIu64 " stream=%" PRIu64, of,
              transfer->label.number, label.number, label.stream);
}

void transfer_completed(transfer_t *transfer, unsigned of, ucxx_request_t *request,
                        ucxx_status_t status) {
  if (transfer->sends) {
    for (size_t index = 0; index < transfer->label.count; index++)
      memset(transfer->list[index].data, SCRIBBLE_SENT, transfer->list[index].length);
    transfer->overwritten = true;
    return;
  }
  ucxx_buffers_t *buffers = NULL;
  /* Buffers that nobody takes are destroyed with the request. */
  if (request == NULL || transfer->label.number % 16 == 15) return;
  ucxx_status_t taken = ucxx_request_take_buffers(request, &buffers);
  if (taken != status || (buffers == NULL) != (status != UCXX_OK))
    violation("completion", "group=%u status=%s take=%s", of, ucxx_status_name(status),
              ucxx_status_name(taken));
  if (buffers == NULL) return;
  received(transfer, of, buffers);
  dispose(buffers, transfer->label.number);
}

/* ------------------------------------------------------------------ transfers */

static transfer_t *prepare(const label_t *label, uint64_t tag, bool sends, bool tagged) {
  transfer_t *transfer = calloc(1, sizeof *transfer);
  if (transfer == NULL) give_up("no memory");
  transfer->label = *label;
  transfer->tag = tag;
  transfer->sends = sends;
  for (size_t index = 0; sends && index < label->count; index++) {
    ucxx_buffer_t *frame = &transfer->list[index];
    frame->length = frame_length(label, tagged, index);
    frame->data = malloc(frame->length > 0 ? frame->length : 1);
    if (frame->data == NULL) give_up("no memory");
    if (tagged && index == 0)
      memcpy(frame->data, label, sizeof *label);
    else
      message_fill(frame->data, frame->length, label->sender, sequence_of(label, index));
  }
  return transfer;
}

void transfer_destroy(transfer_t *transfer) {
  size_t where = 0;
  for (size_t index = 0; transfer != NULL && transfer->sends && index < transfer->label.count;
       index++) {
    const ucxx_buffer_t *frame = &transfer->list[index];
    if (transfer->overwritten &&
        !scribble_stands(frame->data, frame->length, SCRIBBLE_SENT, &where))
      violation("integrity",
                "written_after_completion=1 kind=sent_frame index=%zu length=%" PRIu64 " where=%zu",
                index, frame->length, where);
    free(frame->data);
  }
  free(transfer);
}

static ucxx_status_t submit(const command_t *command, transfer_t *transfer,
                            const ucxx_allocator_t *allocator, ucxx_endpoint_t *endpoint,
                            ucxx_op_params_t *params, ucxx_request_t **place) {
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  const label_t *label = &transfer->label;
  uint64_t spread = number_of(command, "spread", 1);
  if (!transfer->sends) {
    params->source = endpoint;
    params->recv_info = &transfer->info;
    return ucxx_tag_recv_multi(worker, transfer->tag, ~(spread - 1), allocator, params, place);
  }
  if (word_is(text_of(command, "form", "tag"), "tag"))
    return ucxx_tag_send_multi(endpoint, transfer->list, label->count,
                               transfer->tag | label->number % spread, params, place);
  params->flags = protocols[number_of(command, "protocol", 0) % 3] |
                  (number_of(command, "reply", 0) != 0 ? UCXX_FLAG_AM_REPLY : 0);
  return ucxx_am_send_multi(endpoint, MULTI, label, sizeof *label, transfer->list, label->count,
                            params, place);
}

static void many(const command_t *command, bool sends) {
  const char *handle = text_of(command, "handle", "keep");
  uint64_t total = number_of(command, "count", 1), deadline = now_ns() + 20 * UINT64_C(1000000000);
  unsigned of = (unsigned)number_of(command, "group", 0) % GROUPS;
  bool tagged = word_is(text_of(command, "form", "tag"), "tag");
  ucxx_allocator_t allocator = buffers_allocator(number_of(command, "fails", 0));
  ucxx_endpoint_t *endpoint = endpoint_of(command, sends ? "ep" : "from");
  ucxx_status_t first = UCXX_OK;
  label_t label = {.sender = number_of(command, "sender", 0),
                   .stream = number_of(command, "stream", 0),
                   .largest = number_of(command, "largest", 0)};
  label.count = number_of(command, "frames", 1);
  if (label.count > MOST_FRAMES) give_up("too many frames");
  while (label.number < total) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL;
    uint64_t ticket = 0;
    label.check = check_of(&label);
    transfer_t *transfer = prepare(&label, number_of(command, "tag", 1), sends, tagged);
    transfer->in_order = number_of(command, "in_order", 1) != 0;
    params.timeout_ns = number_of(command, "timeout", 0);
    operation_transfer(of, handle, transfer, &params, &ticket);
    ucxx_status_t status = submit(command, transfer, &allocator, endpoint, &params,
                                  word_is(handle, "none") ? NULL : &request);
    operation_called(ticket, status, request);
    if (status == UCXX_ERR_NO_RESOURCE && make_room(deadline)) continue;
    if (status < 0) {
      first = status;
      break;
    }
    label.number++;
    if (label.number % 16 == 0) progress_once();
  }
  answer(command, UCXX_OK, "submitted=%" PRIu64 " refusal=%s", label.number, short_name(first));
}

/* ------------------------------------------------------------------ active messages */

/* Each message arrives once, and in the order sent: none before an earlier one. */
static void note_number(const label_t *label) {
  size_t at = 0;
  pthread_mutex_lock(&lock);
  while (at < STREAMS && streams[at].next != 0 &&
         (streams[at].sender != label->sender || streams[at].stream != label->stream))
    at++;
  uint64_t next = at < STREAMS ? streams[at].next : 0;
  if (at < STREAMS) {
    streams[at].sender = label->sender;
    streams[at].stream = label->stream;
    streams[at].next = label->number + 1;
  }
  pthread_mutex_unlock(&lock);
  if (at == STREAMS) give_up("too many streams");
  if (label->number != next)
    violation("completion", "multi_handler=%" PRIu64 " expected=%" PRIu64 " sender=%" PRIu64,
              label->number, next, label->sender);
}

static void answer_on(ucxx_endpoint_t *reply, unsigned of) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  uint64_t ticket = 0;
  void *data = operation_data(true, of, ANSWER_BYTES, own_number, &params, &ticket);
  operation_called(ticket, ucxx_tag_send(reply, data, ANSWER_BYTES, ANSWER_TAG, &params, NULL),
                   NULL);
}

static void on_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                     ucxx_buffers_t *buffers, ucxx_status_t status) {
  unsigned of = (unsigned)(uintptr_t)arg;
  label_t label = {0};
  pthread_mutex_lock(&lock);
  bool counted = expected > 0;
  expected -= counted;
  pthread_mutex_unlock(&lock);
  if (!counted) group_submitted(of);
  if (status > 0 || (buffers == NULL) != (status != UCXX_OK))
    violation("completion", "group=%u status=%s buffers=%d", of, ucxx_status_name(status),
              buffers != NULL);
  if (label_holds(header, header_length, &label, of)) {
    note_number(&label);
    if (buffers != NULL) examine(buffers, &label, false, of);
  }
  if (buffers != NULL) dispose(buffers, label.number);
  if (reply != NULL) answer_on(reply, of);
  group_completed(of, status, false, now_ns());
}

static void on_unregistered(void *arg) {
  (void)arg;
  __atomic_add_fetch(&unregistered, 1, __ATOMIC_RELAXED);
}

static void gather(const command_t *command) {
  const char *how = text_of(command, "how", "read");
  ucxx_allocator_t allocator = buffers_allocator(number_of(command, "fails", 0));
  unsigned of = (unsigned)number_of(command, "group", 0) % GROUPS;
  pthread_mutex_lock(&lock);
  with_frames = word_is(how, "keep")    ? KEEP
                : word_is(how, "take")  ? TAKE
                : word_is(how, "mixed") ? MIXED_UP
                                        : READ;
  own_number = number_of(command, "sender", 0);
  expected = number_of(command, "expected", 0);
  pthread_mutex_unlock(&lock);
  for (uint64_t count = number_of(command, "expected", 0); count > 0; count--) group_submitted(of);
  ucxx_status_t status = ucxx_worker_set_multi_handler(
      worker, MULTI, on_multi, (void *)(uintptr_t)of, on_unregistered, &allocator);
  registered += status == UCXX_OK;
  answer(command, status, " ");
}

bool command_multi(const command_t *command) {
  if (word_is(command->verb, "multi_send"))
    many(command, true);
  else if (word_is(command->verb, "multi_recv"))
    many(command, false);
  else if (word_is(command->verb, "gather"))
    gather(command);
  else
    return false;
  return true;
}

/* ------------------------------------------------------------------ the end of a round, and of the
 * worker */

size_t multi_release(void) {
  size_t released = 0;
  for (size_t at = 0; at < SHELF; at++) {
    pthread_mutex_lock(&lock);
    ucxx_buffers_t *buffers = shelf[at];
    shelf[at] = NULL;
    pthread_mutex_unlock(&lock);
    let_go(buffers);
    released += buffers != NULL;
  }
  return released;
}

void multi_forget(void) {
  pthread_mutex_lock(&lock);
  memset(streams, 0, sizeof streams);
  expected = 0;
  pthread_mutex_unlock(&lock);
}

void multi_leave(void) {
  multi_release();
  if (registered != unregistered)
    violation("completion", "handlers=%" PRIu64 " destroyed=%" PRIu64, registered, unregistered);
  if (buffers_lent() != 0) violation("leak", "frames_lent=%" PRIu64, buffers_lent());
}
