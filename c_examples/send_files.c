/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * send_files.c: copies files and directory trees from one process to another.
 *
 *     cc -o send_files send_files.c file_store.c file_tree.c sha256.c \
 *        $(pkg-config --cflags --libs ucxx_rs)
 *     ./send_files receive copy.socket DIRECTORY &
 *     ./send_files send copy.socket PATH...
 *
 * Both print what they have done:
 *
 *     received 36 files in 3 directories, 304.0 KiB; each has the sender's SHA-256
 *     transports: sysv/memory,cma/memory
 *     sent 36 files, 304.0 KiB in 0.031 s: 9.5 MiB/s; the receiver has the same
 *     SHA-256 of every one
 *
 * The sender first sends a header of fixed size and the list of files. Then it sends the contents
 * of all files as one sequence of pieces: the chunks of a file, its SHA-256, the chunks of the next
 * file. IN_FLIGHT pieces are in progress at a time, each in its own buffer. Every piece has its own
 * tag, so each arrives in the receive that was posted for it. The sends are synchronous: they
 * complete when the receiver has taken the message. So a fast sender does not fill the memory of a
 * slow receiver.
 *
 * The third kind of message is the note: the receiver's "all is well" at the end, or the reason why
 * a side gave up. Both sides always have a receive posted for a note. A peer that dies sends none.
 * Then the endpoint fails, and every operation on it.
 */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>

#include "exchange.h"
#include "failure.h"
#include "file_store.h"
#include "file_tree.h"
#include "progress_bar.h"
#include "sha256.h"

#define CHUNK ((size_t)1 << 20)
#define IN_FLIGHT 16
#define NOTE_LENGTH 1024
#define SECOND_NS UINT64_C(1000000000)
#define SLICE_NS (SECOND_NS / 5) /* how soon a signal is noticed */
/* How long a peer may do nothing before this side gives up. */
#define STALL_NS (30 * SECOND_NS)
#define GOODBYE_NS (10 * SECOND_NS)

#define TAG_HEADER UINT64_C(1)
#define TAG_LIST UINT64_C(2)
#define TAG_NOTE UINT64_C(3)
#define TAG_PIECE (UINT64_C(1) << 63) /* plus the number of the piece */
#define ALL_BITS UINT64_MAX

/* The magic bytes, and the length of the list. */
#define HEADER_LENGTH 16
static const unsigned char magic[8] = {'u', 'c', 'x', 'x', 'f', 'i', 'l', '1'};

enum { NOTE_WELL = 'w', NOTE_FAILED = 'f' };

struct slot {
  ucxx_request_t *request; /* NULL if nothing is in progress in this slot */
  ucxx_recv_info_t info;
  struct file_piece piece;
  unsigned char *data;
};

struct session {
  const char *peer_name; /* "receiver" or "sender", for messages */
  struct exchange exchange;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  unsigned char *buffers, *list_bytes;
  struct slot slots[IN_FLIGHT];
  struct progress_bar bar;
  ucxx_request_t *note_request;
  ucxx_recv_info_t note_info;
  unsigned char note[NOTE_LENGTH], own_note[NOTE_LENGTH];
  bool note_came, peer_is_gone, reported;
  struct failure failure;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) { interrupted = number; }

/* Text from the peer, or a file name, must not control the terminal. */
static void make_printable(char *text) {
  for (; *text != '\0'; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x20 || byte == 0x7f) *text = '?';
  }
}

static void report(struct session *session) {
  if (session->failure.text[0] == '\0' || session->reported) return;
  make_printable(session->failure.text);
  fprintf(stderr, "send_files: %s\n", session->failure.text);
  session->reported = true;
}

/* A signal ends the transfer like an error, so that no incomplete file is left. */
static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
}

/* ---- the connection to the peer */

static int fail_status(struct session *session, const char *doing, ucxx_status_t status,
                       const char *detail) {
  bool gone = status == UCXX_ERR_PEER_FAILED || status == UCXX_ERR_CONNECTION_RESET ||
              status == UCXX_ERR_ENDPOINT_TIMEOUT;
  session->peer_is_gone = session->peer_is_gone || gone;
  if (gone)
    return fail(&session->failure, "the %s is gone (%s while %s)", session->peer_name,
                ucxx_status_name(status), doing);
  return fail(&session->failure, "%s: %s (%s)", doing, ucxx_status_name(status), detail);
}

static int call_failed(struct session *session, const char *doing, ucxx_status_t status) {
  return fail_status(session, doing, status, ucxx_last_error_message());
}

/* Reads the note that has arrived. Returns 0 if all is well. */
static int take_note(struct session *session) {
  ucxx_status_t status = ucxx_request_status(session->note_request);
  int result;
  if (status != UCXX_OK) {
    result = fail_status(session, "waiting for its answer", status,
                         ucxx_request_error_message(session->note_request));
  } else {
    session->note_came = true;
    size_t length = (size_t)session->note_info.length;
    if (length == 1 && session->note[0] == NOTE_WELL) {
      result = 0;
    } else {
      char reason[NOTE_LENGTH] = "";
      if (length > 1) memcpy(reason, session->note + 1, length - 1);
      result = fail(&session->failure, "the %s gave up: %s", session->peer_name, reason);
    }
  }
  ucxx_request_destroy(session->note_request);
  session->note_request = NULL;
  return result;
}

/* Waits for a request, or only for the note if request is NULL. A note with an error ends the
 * wait. */
static int wait_for(struct session *session, ucxx_request_t *request, const char *doing) {
  if (request == NULL && session->note_came) return 0;
  uint64_t deadline_ns = exchange_now_ns() + STALL_NS;
  for (;;) {
    if (interrupted) return fail(&session->failure, "interrupted by signal %d", (int)interrupted);
    ucxx_request_t *requests[2] = {request, session->note_request};
    size_t index = 2;
    ucxx_status_t status = ucxx_request_wait_any(requests, 2, SLICE_NS, &index);
    if (status == UCXX_INPROGRESS) {
      if (exchange_now_ns() < deadline_ns) continue;
      return fail(&session->failure, "the %s did not answer for %u seconds while %s",
                  session->peer_name, (unsigned)(STALL_NS / SECOND_NS), doing);
    }
    if (index == 0 && status == UCXX_OK) return 0;
    /* If both are complete, the note explains more. */
    bool noted =
        session->note_request != NULL && ucxx_request_status(session->note_request) == UCXX_OK;
    if (index == 1 || noted) {
      if (take_note(session) != 0) return -1;
      if (request == NULL) return 0;
      /* The final note can overtake the last acknowledgements. */
      continue;
    }
    if (index == 0) return fail_status(session, doing, status, ucxx_request_error_message(request));
    return call_failed(session, doing, status);
  }
}

/* Waits for an operation, given what its call returned. */
static int finish(struct session *session, ucxx_status_t status, ucxx_request_t *request,
                  const char *doing) {
  if (status == UCXX_OK) return 0;
  if (status != UCXX_INPROGRESS) return call_failed(session, doing, status);
  int result = wait_for(session, request, doing);
  /* Destroying a request does not end its operation. So every buffer here lives as long as the
   * worker. */
  ucxx_request_destroy(request);
  return result;
}

static int finish_slot(struct session *session, struct slot *slot, const char *doing) {
  if (slot->request == NULL) return 0;
  if (wait_for(session, slot->request, doing) != 0) return -1;
  ucxx_request_destroy(slot->request);
  slot->request = NULL;
  return 0;
}

static ucxx_status_t post_receive(struct session *session, uint64_t flags, void *data,
                                  size_t length, uint64_t tag, ucxx_recv_info_t *info,
                                  ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  params.memory_type = UCXX_MEMORY_HOST;
  params.recv_info = info;
  /* A tag receive belongs to no endpoint. With `source` it fails if the endpoint does. */
  params.source = session->endpoint;
  return ucxx_tag_recv(session->worker, data, length, tag, ALL_BITS, &params, request);
}

static int swap_addresses(struct session *session) {
  ucxx_address_t *mine = NULL, *theirs = NULL;
  void *bytes = NULL;
  size_t length = 0;
  ucxx_status_t status = ucxx_worker_address(session->worker, &mine);
  if (status != UCXX_OK) return call_failed(session, "asking for the worker's address", status);
  int result = exchange_swap(&session->exchange, ucxx_address_data(mine), ucxx_address_length(mine),
                             &bytes, &length);
  ucxx_address_destroy(mine);
  if (result != 0)
    return fail(&session->failure, "the %s is gone before the transfer has begun",
                session->peer_name);
  status = ucxx_address_from_bytes(bytes, length, &theirs);
  free(bytes);
  if (status != UCXX_OK) return call_failed(session, "reading the peer's address", status);
  status = ucxx_endpoint_create(session->worker, theirs, NULL, &session->endpoint);
  ucxx_address_destroy(theirs);
  return status == UCXX_OK ? 0 : call_failed(session, "making the endpoint", status);
}

static int open_session(struct session *session, const char *socket_path, bool listens) {
  session->buffers = malloc(IN_FLIGHT * CHUNK);
  if (session->buffers == NULL) return fail(&session->failure, "out of memory");
  for (size_t i = 0; i < IN_FLIGHT; i++) session->slots[i].data = session->buffers + i * CHUNK;

  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  ucxx_status_t status = ucxx_context_create(&params, &session->context);
  if (status != UCXX_OK) return call_failed(session, "starting UCX", status);
  status = ucxx_worker_create(session->context, NULL, &session->worker);
  if (status != UCXX_OK) return call_failed(session, "making the worker", status);
  if (exchange_open(&session->exchange, listens, socket_path) != 0)
    return fail(&session->failure, "no connection to the %s", session->peer_name);
  if (swap_addresses(session) != 0) return -1;
  /* The flag prevents completion inside the call, so that there is always a request to wait for. */
  status = post_receive(session, UCXX_FLAG_ALWAYS_CALLBACK, session->note, sizeof session->note,
                        TAG_NOTE, &session->note_info, &session->note_request);
  catch_signals();
  return status == UCXX_INPROGRESS ? 0
                                   : call_failed(session, "posting the receive for notes", status);
}

/* Sends the outcome to the peer. The caller checks that the peer is still there and sent none
 * first. */
static void send_note(struct session *session, char kind) {
  size_t length = 1;
  session->own_note[0] = (unsigned char)kind;
  if (kind == NOTE_FAILED) {
    length += strlen(session->failure.text);
    memcpy(session->own_note + 1, session->failure.text, length - 1);
  }
  /* No request is kept. The progress at the barrier sends the note. */
  ucxx_status_t status =
      ucxx_tag_send(session->endpoint, session->own_note, length, TAG_NOTE, NULL, NULL);
  if (status < 0)
    fprintf(stderr, "send_files: the %s could not be told: %s\n", session->peer_name,
            ucxx_error_text(status));
}

static void close_session(struct session *session) {
  if (session->endpoint != NULL && !session->peer_is_gone &&
      ucxx_endpoint_status(session->endpoint) == UCXX_OK) {
    if (session->failure.text[0] != '\0' && !session->note_came) send_note(session, NOTE_FAILED);
    /* Both sides know the outcome before either destroys its endpoint. */
    if (exchange_barrier(&session->exchange, session->worker, GOODBYE_NS) != 0)
      fail(&session->failure, "the %s is gone", session->peer_name);
  }
  ucxx_endpoint_destroy(session->endpoint);
  /* Ends every operation that is still in progress, so the requests and buffers are freed after
   * it. */
  ucxx_worker_destroy(session->worker);
  ucxx_request_destroy(session->note_request);
  for (size_t i = 0; i < IN_FLIGHT; i++) ucxx_request_destroy(session->slots[i].request);
  ucxx_context_destroy(session->context);
  exchange_close(&session->exchange);
  free(session->list_bytes);
  free(session->buffers);
}

/* ---- the sender */

struct reader {
  int fd;
  struct sha256 hash;
};

static int changed(struct session *session, const char *source) {
  return fail(&session->failure, "%s: changed while it was sent", source);
}

/* Fills a buffer with a piece: a chunk of a file, or the digest after the last one. */
static int read_piece(struct session *session, struct reader *reader, const struct file_list *list,
                      const struct file_piece *piece, unsigned char *data) {
  const char *source = list->entries[piece->entry].source;
  if (reader->fd < 0) {
    reader->fd = open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (reader->fd < 0) return fail(&session->failure, "%s: %s", source, strerror(errno));
    sha256_start(&reader->hash);
  }
  size_t wanted = piece->is_digest ? 1 : piece->length, length = 0;
  while (length < wanted) {
    ssize_t got = read(reader->fd, data + length, wanted - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(&session->failure, "%s: %s", source, strerror(errno));
    if (got == 0) break;
    length += (size_t)got;
  }
  if (!piece->is_digest) {
    if (length < wanted) return changed(session, source);
    sha256_add(&reader->hash, data, length);
    return 0;
  }
  /* The file is longer than when it was listed. */
  if (length > 0) return changed(session, source);
  close(reader->fd);
  reader->fd = -1;
  sha256_finish(&reader->hash, data);
  return 0;
}

static int send_list(struct session *session, const struct file_list *list) {
  unsigned char *header = session->buffers;
  size_t length = 0;
  if (file_list_encode(list, &session->list_bytes, &length, &session->failure) != 0) return -1;
  memcpy(header, magic, sizeof magic);
  for (size_t i = 0; i < 8; i++)
    header[sizeof magic + i] = (unsigned char)((uint64_t)length >> (8 * i));

  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_tag_send(session->endpoint, header, HEADER_LENGTH, TAG_HEADER, NULL, &request);
  if (finish(session, status, request, "sending the header") != 0) return -1;
  request = NULL;
  status = ucxx_tag_send(session->endpoint, session->list_bytes, length, TAG_LIST, NULL, &request);
  return finish(session, status, request, "sending the list of files");
}

static int send_pieces(struct session *session, struct reader *reader,
                       const struct file_list *list) {
  struct file_cursor cursor = {0, 0};
  struct file_piece piece;
  uint64_t number = 0;
  for (; file_cursor_next(&cursor, list, CHUNK, &piece); number++) {
    /* The slots take turns, so the next one is the oldest operation. */
    struct slot *slot = &session->slots[number % IN_FLIGHT];
    if (finish_slot(session, slot, "sending") != 0) return -1;
    if (number >= IN_FLIGHT && !slot->piece.is_digest)
      progress_add(&session->bar, slot->piece.length);
    if (read_piece(session, reader, list, &piece, slot->data) != 0) return -1;
    slot->piece = piece;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.memory_type = UCXX_MEMORY_HOST;
    ucxx_status_t status = ucxx_tag_send_sync(session->endpoint, slot->data, piece.length,
                                              TAG_PIECE | number, &params, &slot->request);
    if (status < 0) return call_failed(session, "sending", status);
  }
  for (uint64_t last = number > IN_FLIGHT ? number - IN_FLIGHT : 0; last < number; last++) {
    struct slot *slot = &session->slots[last % IN_FLIGHT];
    if (finish_slot(session, slot, "sending") != 0) return -1;
    if (!slot->piece.is_digest) progress_add(&session->bar, slot->piece.length);
  }
  return wait_for(session, NULL, "writing the last files");
}

static int send_files(struct session *session, const struct file_list *list) {
  char size[32], rate[32];
  ucxx_endpoint_attr_t attributes = UCXX_ENDPOINT_ATTR_INIT;
  if (send_list(session, list) != 0) return -1;
  printf("sending %zu files in %zu directories, %s\n", list->files, list->directories,
         progress_bytes(size, (double)list->bytes));

  struct reader reader = {-1, {{0}, 0, {0}}};
  progress_start(&session->bar, "sent", list->bytes);
  int result = send_pieces(session, &reader, list);
  double seconds = progress_seconds(&session->bar);
  progress_end(&session->bar);
  if (reader.fd >= 0) close(reader.fd);
  if (result != 0) return -1;

  ucxx_status_t status = ucxx_endpoint_query(session->endpoint, &attributes);
  if (status == UCXX_OK && attributes.transports[0] != '\0')
    printf("transports: %s\n", attributes.transports);
  /* The time includes reading, hashing on both sides and writing. */
  printf("sent %zu files, %s in %.3f s: %s/s; the receiver has the same SHA-256 of every one\n",
         list->files, size, seconds, progress_bytes(rate, (double)list->bytes / seconds));
  return 0;
}

/* ---- the receiver */

static int receive_list(struct session *session, struct file_list *list) {
  const unsigned char *header = session->buffers;
  ucxx_recv_info_t *info = &session->slots[0].info;
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      post_receive(session, 0, session->buffers, HEADER_LENGTH, TAG_HEADER, info, &request);
  if (finish(session, status, request, "waiting for the header") != 0) return -1;
  if (info->length != HEADER_LENGTH || memcmp(header, magic, sizeof magic) != 0) {
    return fail(&session->failure, "the sender speaks another language");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < 8; i++) length |= (uint64_t)header[sizeof magic + i] << (8 * i);
  if (length > FILE_LIST_LIMIT) return fail(&session->failure, "the list of files is too long");

  session->list_bytes = malloc(length > 0 ? (size_t)length : 1);
  if (session->list_bytes == NULL) return fail(&session->failure, "out of memory");
  request = NULL;
  status = post_receive(session, 0, session->list_bytes, (size_t)length, TAG_LIST, info, &request);
  if (finish(session, status, request, "waiting for the list of files") != 0) return -1;
  if (info->length != length) return fail(&session->failure, "the list of files is cut short");
  return file_list_decode(list, session->list_bytes, (size_t)length, &session->failure);
}

static int write_piece(struct session *session, struct file_store *store,
                       const struct file_list *list, const struct slot *slot) {
  const struct file_entry *entry = &list->entries[slot->piece.entry];
  if (slot->info.length != slot->piece.length)
    return fail(&session->failure, "%s: a piece of the wrong length came", entry->path);
  if (slot->piece.offset == 0 && store->fd < 0 &&
      file_store_begin(store, entry->path, &session->failure) != 0)
    return -1;
  if (slot->piece.is_digest)
    return file_store_finish(store, entry->mode, slot->data, &session->failure);
  progress_add(&session->bar, slot->piece.length);
  return file_store_write(store, slot->data, slot->piece.length, &session->failure);
}

/* Posts the receive for the next piece, if there is one. */
static int post_piece(struct session *session, const struct file_list *list,
                      struct file_cursor *cursor, uint64_t *posted) {
  struct slot *slot = &session->slots[*posted % IN_FLIGHT];
  if (!file_cursor_next(cursor, list, CHUNK, &slot->piece)) return 0;
  ucxx_status_t status = post_receive(session, 0, slot->data, slot->piece.length,
                                      TAG_PIECE | *posted, &slot->info, &slot->request);
  if (status < 0) return call_failed(session, "posting a receive", status);
  (*posted)++;
  return 0;
}

static int receive_pieces(struct session *session, struct file_store *store,
                          const struct file_list *list) {
  struct file_cursor cursor = {0, 0};
  uint64_t posted = 0;
  for (size_t i = 0; i < IN_FLIGHT; i++) {
    if (post_piece(session, list, &cursor, &posted) != 0) return -1;
  }
  for (uint64_t number = 0; number < posted; number++) {
    struct slot *slot = &session->slots[number % IN_FLIGHT];
    if (finish_slot(session, slot, "receiving") != 0) return -1;
    if (write_piece(session, store, list, slot) != 0) return -1;
    if (post_piece(session, list, &cursor, &posted) != 0) return -1;
  }
  return 0;
}

static int receive_files(struct session *session, struct file_store *store,
                         struct file_list *list) {
  if (receive_list(session, list) != 0) return -1;
  for (size_t i = 0; i < list->count; i++) {
    const struct file_entry *entry = &list->entries[i];
    if (entry->is_directory &&
        file_store_make_directory(store, entry->path, &session->failure) != 0)
      return -1;
  }
  progress_start(&session->bar, "received", list->bytes);
  int result = receive_pieces(session, store, list);
  progress_end(&session->bar);
  if (result != 0) return -1;
  /* Set the modes last, because a directory may become unwritable even for us. Inner directories
   * come later in the list, so go backwards. */
  for (size_t i = list->count; i-- > 0;) {
    const struct file_entry *entry = &list->entries[i];
    if (entry->is_directory &&
        file_store_set_directory_mode(store, entry->path, entry->mode, &session->failure) != 0)
      return -1;
  }
  send_note(session, NOTE_WELL);
  char size[32];
  printf("received %zu files in %zu directories, %s; each has the sender's SHA-256\n", list->files,
         list->directories, progress_bytes(size, (double)list->bytes));
  return 0;
}

/* ---- the program */

static void run_sender(struct session *session, const char *socket_path, char **paths) {
  struct file_list list = {0};
  session->peer_name = "receiver";
  int listed = 0;
  for (; listed == 0 && *paths != NULL; paths++)
    listed = file_list_add(&list, *paths, &session->failure);
  /* Connect even if there is nothing to send: the receiver waits, and has to be sent the reason. */
  report(session);
  if (open_session(session, socket_path, false) == 0 && listed == 0) send_files(session, &list);
  close_session(session);
  file_list_free(&list);
}

static void run_receiver(struct session *session, const char *socket_path, const char *directory) {
  struct file_list list = {0};
  struct file_store store;
  session->peer_name = "sender";
  int opened = file_store_open(&store, directory, &session->failure);
  if (open_session(session, socket_path, true) == 0 && opened == 0)
    receive_files(session, &store, &list);
  file_store_close(&store);
  close_session(session);
  file_list_free(&list);
}

int main(int argc, char **argv) {
  bool sends = argc >= 4 && strcmp(argv[1], "send") == 0;
  bool receives = argc == 4 && strcmp(argv[1], "receive") == 0;
  if (!sends && !receives) {
    fprintf(stderr, "usage: %s send SOCKET_PATH PATH...\n       %s receive SOCKET_PATH DIRECTORY\n",
            argv[0], argv[0]);
    return 2;
  }
  /* If a file grows past a limit of the process, write() should fail. A signal would end the
   * program. */
  signal(SIGXFSZ, SIG_IGN);

  struct session *session = calloc(1, sizeof *session);
  if (session == NULL) {
    fprintf(stderr, "send_files: out of memory\n");
    return EXIT_FAILURE;
  }
  session->exchange.fd = -1;
  if (sends)
    run_sender(session, argv[2], argv + 3);
  else
    run_receiver(session, argv[2], argv[3]);
  report(session);
  int result = session->failure.text[0] == '\0' ? EXIT_SUCCESS : EXIT_FAILURE;
  free(session);
  return result;
}
