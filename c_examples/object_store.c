/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * object_store.c: rank 1 has files, and rank 0 reads ranges of them by fetch, many at a time.
 *
 *     cc -o object_store object_store.c $(pkg-config --cflags --libs ucxx_rs) -pthread
 *     ./object_store 0 store.socket & ./object_store 1 store.socket; wait
 *
 * It prints what both sides counted:
 *
 *     server: 878 ranges sent, 122 questions refused, 1898 turned away for now, 0 of a
 *     client that had gone
 *     client: 12 objects; 878 ranges read (50.1 MB), 63 of unknown objects, 59
 *     beyond the end, 1898 asked again
 *
 * A fetch is a question with an answer. The client provides the buffer for the answer when it asks.
 * The server's handler only queues questions. Threads of the server read the files and answer, each
 * when it has the data, so a slow disk delays no other question. A thread starts the next read
 * after its answer has been sent. That bounds the server's memory. If the queue is full, the server
 * refuses the question with UCXX_ERR_BUSY, and the client asks again. docs/object-store.md compares
 * this with tag messages and remote memory access.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

/* The id of a fetch: the list of objects. No header. The answer is an array of struct entry. */
#define LIST_ID 1
/* The id of a fetch: a range. The header is a struct range. The answer is the bytes. */
#define READ_ID 2

#define BEYOND_END (UCXX_ERR_APPLICATION - 1)
#define UNREADABLE (UCXX_ERR_APPLICATION - 2)

#define OBJECTS 12
#define NAME 24
#define LONGEST (1u << 20) /* of a range */

struct entry {
  uint64_t length;
  char name[NAME];
};

struct range {
  uint64_t offset, length;
  char name[NAME]; /* with a NUL */
};

static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* An object's content follows from its number, so that the client can check a range without the
 * file. */
static void fill(unsigned char *data, size_t length, unsigned object, uint64_t offset) {
  uint64_t word = 0;
  for (size_t at = 0; at < length; at++) {
    uint64_t place = offset + at;
    if (at == 0 || place % 8 == 0) word = mix((uint64_t)object << 40 | place / 8) >> place % 8 * 8;
    data[at] = (unsigned char)word;
    word >>= 8;
  }
}

/* ------------------------------------------------------------------ rank 1: the server */

#define READERS 4
#define LINE 48

struct object {
  struct entry entry;
  int fd;
};

struct server {
  char directory[256];
  struct object objects[OBJECTS];
  unsigned count;
  pthread_t readers[READERS];
  pthread_mutex_t lock; /* protects everything below */
  pthread_cond_t more;
  ucxx_fetch_t *line[LINE]; /* questions that no thread has taken yet */
  unsigned first, waiting;
  bool over;
  unsigned answered, refused, busy, lost;
};

static void store_path(const struct server *server, const char *name,
                       char path[sizeof server->directory + NAME]) {
  snprintf(path, sizeof server->directory + NAME, "%s/%s", server->directory, name);
}

static void write_object(const struct server *server, unsigned number) {
  char name[NAME], path[sizeof server->directory + NAME];
  size_t length = number == 0 ? 0 : (size_t)(mix(number) % (4u << 20));
  snprintf(name, sizeof name, "object-%02u", number);
  store_path(server, name, path);
  unsigned char *data = malloc(length + 1);
  FILE *file = fopen(path, "wb");
  require(data != NULL && file != NULL, "a new file");
  fill(data, length, number, 0);
  require(fwrite(data, 1, length, file) == length && fclose(file) == 0, "a file is written");
  free(data);
}

static void store_open(struct server *server, const char *beside) {
  char path[sizeof server->directory + NAME];
  require(snprintf(server->directory, sizeof server->directory, "%s.objects", beside) <
              (int)sizeof server->directory,
          "a short path");
  require(mkdir(server->directory, 0700) == 0, "a new directory");
  for (unsigned number = 0; number < OBJECTS; number++) write_object(server, number);

  DIR *directory = opendir(server->directory);
  require(directory != NULL, "the directory is readable");
  for (struct dirent *found; (found = readdir(directory)) != NULL;) {
    struct object *object = &server->objects[server->count];
    struct stat stat;
    if (found->d_name[0] == '.') continue;
    require(server->count < OBJECTS && strlen(found->d_name) < NAME, "nothing but objects");
    strcpy(object->entry.name, found->d_name);
    store_path(server, found->d_name, path);
    object->fd = open(path, O_RDONLY);
    require(object->fd >= 0 && fstat(object->fd, &stat) == 0, "the file is there");
    object->entry.length = (uint64_t)stat.st_size;
    server->count++;
  }
  closedir(directory);
}

static void store_remove(struct server *server) {
  char path[sizeof server->directory + NAME];
  for (unsigned at = 0; at < server->count; at++) {
    close(server->objects[at].fd);
    store_path(server, server->objects[at].entry.name, path);
    unlink(path);
  }
  rmdir(server->directory);
}

/* Names come from another process. They are compared with known names, and never opened. */
static const struct object *find(const struct server *server, const char *name) {
  for (unsigned at = 0; at < server->count; at++)
    if (strcmp(server->objects[at].entry.name, name) == 0) return &server->objects[at];
  return NULL;
}

/* Returns UCXX_OK and the range in `buffer`, or the status for the client. */
static ucxx_status_t read_range(const struct server *server, const ucxx_fetch_t *fetch,
                                unsigned char *buffer, size_t *length) {
  struct range range;
  size_t header_length = 0;
  const void *header = ucxx_fetch_header(fetch, &header_length);
  if (header_length != sizeof range) return UCXX_ERR_REJECTED;
  memcpy(&range, header, sizeof range);
  if (memchr(range.name, 0, sizeof range.name) == NULL || range.length > LONGEST)
    return UCXX_ERR_REJECTED;
  /* The answer would not fit into the client's buffer, so do not read it. */
  if (range.length > ucxx_fetch_capacity(fetch)) return UCXX_ERR_REJECTED;
  const struct object *object = find(server, range.name);
  if (object == NULL) return UCXX_ERR_NO_ELEM;
  if (range.offset > object->entry.length || range.length > object->entry.length - range.offset)
    return BEYOND_END;
  for (*length = 0; *length < range.length;) {
    ssize_t got = pread(object->fd, buffer + *length, (size_t)range.length - *length,
                        (off_t)(range.offset + *length));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return UNREADABLE;
    *length += (size_t)got;
  }
  return UCXX_OK;
}

static ucxx_fetch_t *next_question(struct server *server) {
  ucxx_fetch_t *fetch = NULL;
  pthread_mutex_lock(&server->lock);
  while (server->waiting == 0 && !server->over) pthread_cond_wait(&server->more, &server->lock);
  if (server->waiting > 0) {
    fetch = server->line[server->first];
    server->first = (server->first + 1) % LINE;
    server->waiting--;
  }
  pthread_mutex_unlock(&server->lock);
  return fetch;
}

static void *read_and_answer(void *arg) {
  struct server *server = arg;
  unsigned char *buffer = malloc(LONGEST);
  require(buffer != NULL, "memory");
  for (ucxx_fetch_t *fetch; (fetch = next_question(server)) != NULL;) {
    size_t length = 0;
    ucxx_status_t status = read_range(server, fetch, buffer, &length), told;
    if (status == UCXX_OK) {
      ucxx_request_t *request = NULL;
      ucxx_status_t sent = ucxx_fetch_reply(fetch, buffer, length, NULL, &request);
      /* The client may receive a long range directly from this buffer. The buffer is free when the
       * reply completes. */
      told = outcome(sent, request);
    } else {
      told = ucxx_fetch_reject(fetch, status);
    }
    ucxx_fetch_destroy(fetch);
    /* A client that failed before it had its answer must not end the server. */
    if (told != UCXX_ERR_PEER_FAILED && told != UCXX_ERR_CONNECTION_RESET) check(told, "answer");
    pthread_mutex_lock(&server->lock);
    if (told != UCXX_OK)
      server->lost++;
    else if (status == UCXX_OK)
      server->answered++;
    else
      server->refused++;
    pthread_mutex_unlock(&server->lock);
  }
  free(buffer);
  return NULL;
}

/* Runs on the progress thread, so it must not wait for the disk. */
static void on_read_asked(void *arg, ucxx_fetch_t *fetch) {
  struct server *server = arg;
  pthread_mutex_lock(&server->lock);
  bool taken = server->waiting < LINE;
  if (taken) {
    server->line[(server->first + server->waiting++) % LINE] = fetch;
    pthread_cond_signal(&server->more);
  } else {
    server->busy++;
  }
  pthread_mutex_unlock(&server->lock);
  if (taken) return;
  check(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY), "refusal");
  ucxx_fetch_destroy(fetch);
}

static void on_listing_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  check_completion(request, status, "the listing was sent");
  free(arg);
}

static void on_list_asked(void *arg, ucxx_fetch_t *fetch) {
  struct server *server = arg;
  size_t length = server->count * sizeof(struct entry);
  struct entry *entries = malloc(length);
  require(entries != NULL, "memory");
  for (unsigned at = 0; at < server->count; at++) entries[at] = server->objects[at].entry;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_listing_sent;
  params.callback_arg = entries;
  ucxx_status_t status = ucxx_fetch_reply(fetch, entries, length, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "listing");
  /* The reply continues without the fetch. */
  ucxx_fetch_destroy(fetch);
}

/* Both sides meet twice: when the server is ready, and when the client needs nothing more. */
static void meet(struct pair *pair) {
  if (exchange_barrier(&pair->exchange, pair->worker, 5 * PAIR_TIMEOUT_NS) != 0) give_up();
}

static void serve(struct pair *pair, const char *beside) {
  struct server *server = calloc(1, sizeof *server);
  require(server != NULL, "memory");
  store_open(server, beside);
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->more, NULL);
  for (unsigned at = 0; at < READERS; at++)
    require(pthread_create(&server->readers[at], NULL, read_and_answer, server) == 0, "a thread");
  check(ucxx_worker_set_fetch_handler(pair->worker, LIST_ID, on_list_asked, server, NULL),
        "handler");
  check(ucxx_worker_set_fetch_handler(pair->worker, READ_ID, on_read_asked, server, NULL),
        "handler");
  meet(pair);
  meet(pair);
  pthread_mutex_lock(&server->lock);
  server->over = true;
  pthread_cond_broadcast(&server->more);
  pthread_mutex_unlock(&server->lock);
  for (unsigned at = 0; at < READERS; at++) pthread_join(server->readers[at], NULL);
  printf("server: %u ranges sent, %u questions refused, %u turned away for now, %u of a client "
         "that had gone\n",
         server->answered, server->refused, server->busy, server->lost);
  store_remove(server);
  pair_close(pair); /* no handler runs after this */
  pthread_cond_destroy(&server->more);
  pthread_mutex_destroy(&server->lock);
  free(server);
}

/* ------------------------------------------------------------------ rank 0: the client */

#define READS 1000
#define UNDER_WAY 64
#define UNTOUCHED 0x77

struct client {
  struct pair *pair;
  struct entry entries[OBJECTS];
  unsigned asked, ended, good, unknown, beyond, again;
  uint64_t bytes;
  unsigned char *expected; /* a range, to compare with */
};

struct reading {
  struct client *client;
  unsigned object;
  struct range range;
  ucxx_status_t expected;
  ucxx_recv_info_t info;
  unsigned char *buffer;
};

/* The length of the list is not known in advance, so the library allocates a buffer when the answer
 * arrives. */
static void list(struct client *client) {
  ucxx_request_t *request = NULL;
  /* Limits what the server can make this process allocate. */
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.max_total_bytes = sizeof client->entries;
  ucxx_status_t status = ucxx_am_fetch_alloc(client->pair->endpoint, LIST_ID, NULL, 0, NULL, 0,
                                             &allocator, NULL, &request);
  if (status != UCXX_INPROGRESS) check(status, "asking for the listing");
  check(ucxx_request_wait(request, PAIR_TIMEOUT_NS), "the listing");
  ucxx_buffers_t *buffers = NULL;
  ucxx_buffer_t buffer;
  check(ucxx_request_take_buffers(request, &buffers), "the listing's buffer");
  check(ucxx_buffers_get(buffers, 0, &buffer), "the listing's buffer");
  require(buffer.length == sizeof client->entries, "all objects are listed");
  memcpy(client->entries, buffer.data, buffer.length);
  ucxx_buffers_destroy(buffers);
  ucxx_request_destroy(request);
  for (unsigned at = 0; at < OBJECTS; at++)
    require(memchr(client->entries[at].name, 0, NAME) != NULL, "names end");
}

static void on_read(void *arg, ucxx_request_t *request, ucxx_status_t status);

static void ask(struct reading *reading) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = on_read;
  params.callback_arg = reading;
  params.recv_info = &reading->info;
  /* The server might not answer. After the timeout the buffer may be used again. */
  params.timeout_ns = PAIR_TIMEOUT_NS;
  memset(reading->buffer, UNTOUCHED, (size_t)reading->range.length + 1);
  ucxx_status_t status = ucxx_am_fetch(reading->client->pair->endpoint, READ_ID, &reading->range,
                                       sizeof reading->range, reading->buffer,
                                       (size_t)reading->range.length, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "read");
}

/* Asks for a random range of a random object. One in sixteen is of an object that does not exist,
 * and one in sixteen is beyond the end. */
static void ask_next(struct reading *reading) {
  struct client *client = reading->client;
  if (client->asked == READS) return;
  uint64_t random = mix(~(uint64_t)client->asked++);
  const struct entry *entry = &client->entries[random % OBJECTS];
  struct range *range = &reading->range;
  memset(range, 0, sizeof *range);
  strcpy(range->name, entry->name);
  require(sscanf(entry->name, "object-%u", &reading->object) == 1, "the name has a number");
  range->offset = mix(random) % (entry->length + 1);
  range->length = mix(random + 1) % ((random >> 8) % 8 == 0 ? LONGEST : 1u << 16);
  if (range->length > entry->length - range->offset) range->length = entry->length - range->offset;
  reading->expected = UCXX_OK;
  switch ((random >> 16) % 16) {
  case 0:
    strcpy(range->name, "../object-00");
    reading->expected = UCXX_ERR_NO_ELEM;
    break;
  case 1:
    range->offset = entry->length;
    range->length = 1 + random % 1000;
    reading->expected = BEYOND_END;
    break;
  }
  ask(reading);
}

static void on_read(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct reading *reading = arg;
  struct client *client = reading->client;
  (void)request;
  if (status == UCXX_ERR_BUSY) {
    client->again++;
    ask(reading);
    return;
  }
  if (status != reading->expected)
    fprintf(stderr, "%s, and not %s\n", ucxx_status_name(status),
            ucxx_status_name(reading->expected));
  require(status == reading->expected, "the outcome of a read");
  size_t length = status == UCXX_OK ? (size_t)reading->range.length : 0;
  if (status == UCXX_OK) {
    require(reading->info.length == length, "the length that was asked for");
    client->bytes += length;
    client->good++;
  } else if (status == UCXX_ERR_NO_ELEM) {
    client->unknown++;
  } else {
    client->beyond++;
  }
  fill(client->expected, length, reading->object, reading->range.offset);
  require(memcmp(reading->buffer, client->expected, length) == 0, "the content is the object's");
  require(reading->buffer[length] == UNTOUCHED, "nothing behind it was touched");
  client->ended++;
  ask_next(reading);
}

static void read_much(struct pair *pair) {
  struct client client;
  static struct reading readings[UNDER_WAY];
  memset(&client, 0, sizeof client);
  client.pair = pair;
  client.expected = malloc(LONGEST);
  require(client.expected != NULL, "memory");
  meet(pair);
  list(&client);
  for (unsigned at = 0; at < UNDER_WAY; at++) {
    readings[at].client = &client;
    readings[at].buffer = malloc(LONGEST + 1);
    require(readings[at].buffer != NULL, "memory");
    ask_next(&readings[at]);
  }
  while (client.ended < READS)
    check(ucxx_worker_wait(pair->worker, PAIR_TIMEOUT_NS), "waiting for answers");
  require(client.good > 0 && client.unknown > 0 && client.beyond > 0,
          "every kind of question was asked");
  printf("client: %u objects; %u ranges read (%.1f MB), %u of unknown objects, %u beyond the end, "
         "%u asked again\n",
         OBJECTS, client.good, (double)client.bytes / 1e6, client.unknown, client.beyond,
         client.again);
  for (unsigned at = 0; at < UNDER_WAY; at++) free(readings[at].buffer);
  free(client.expected);
  meet(pair);
  pair_close(pair);
}

int main(int argc, char **argv) {
  struct pair pair;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  bool is_server = argc == 3 && atoi(argv[1]) == 1;
  /* The server answers from several threads, and its progress thread sends. The client has one
   * thread, which makes progress. */
  if (is_server) params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  pair_open_with(&pair, argc, argv, &params, NULL);
  if (is_server)
    serve(&pair, argv[2]);
  else
    read_much(&pair);
  return EXIT_SUCCESS;
}
