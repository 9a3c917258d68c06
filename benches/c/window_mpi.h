/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Windows of the MPI that this is compiled with. MPI's own error handling ends the program. */
#ifndef BENCH_WINDOW_MPI_H
#define BENCH_WINDOW_MPI_H

#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>

#ifdef OPEN_MPI
#define WINDOW_NAME "openmpi"
#define BENCH_TEXT_(number) #number
#define BENCH_TEXT(number) BENCH_TEXT_(number)
#define WINDOW_VERSION           \
  BENCH_TEXT(OMPI_MAJOR_VERSION) \
  "." BENCH_TEXT(OMPI_MINOR_VERSION) "." BENCH_TEXT(OMPI_RELEASE_VERSION)
#else
#define WINDOW_NAME "mpich"
#define WINDOW_VERSION MPICH_VERSION
#endif

struct world {
  int rank, size;
};

struct window {
  MPI_Win handle;
  unsigned char *base;
};

struct elements {
  MPI_Datatype type;
  int count;
};

/* The rank is needed before MPI starts its threads, because they stay on the CPU of the process. */
static inline void world_start(int argc, char **argv, struct options *options) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == NULL) rank = getenv("PMI_RANK");
  if (rank == NULL) die("to be started by mpirun");
  /* Ends this process if the launcher is killed. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  harness_read(argc, argv, options);
  options->side = atoi(rank);
  harness_pin(options->cpu[options->side % 2]);
}

static inline void world_open(struct world *world, const struct options *options) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world->size);
  if (world->rank != options->side || world->size != options->processes)
    die("rank %d of %d, not %d of %ld", world->rank, world->size, options->side,
        options->processes);
  report_text(options, "version", WINDOW_VERSION);
}

static inline void world_barrier(struct world *world) {
  (void)world;
  MPI_Barrier(MPI_COMM_WORLD);
}

static inline void world_broadcast(struct world *world, void *data, size_t length) {
  (void)world;
  MPI_Bcast(data, (int)length, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static inline void world_gather(struct world *world, const void *in, size_t length, void *out) {
  (void)world;
  MPI_Allgather(in, (int)length, MPI_BYTE, out, (int)length, MPI_BYTE, MPI_COMM_WORLD);
}

static inline void world_look(struct world *world) {
  int found;
  (void)world;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

static inline void world_close(struct world *world) {
  (void)world;
  MPI_Finalize();
}

static inline void window_open(struct world *world, struct window *window, size_t size) {
  (void)world;
  MPI_Win_allocate((MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window->base,
                   &window->handle);
}

static inline void window_create(struct world *world, struct window *window, void *base,
                                 size_t size) {
  (void)world;
  MPI_Win_create(base, (MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window->handle);
  window->base = (unsigned char *)base;
}

static inline void window_close(struct window *window) { MPI_Win_free(&window->handle); }

static inline void elements_set(struct elements *elements, int kind, size_t count) {
  elements->type = kind == ELEMENT_BYTE    ? MPI_BYTE
                   : kind == ELEMENT_INT64 ? MPI_INT64_T
                                           : MPI_DOUBLE;
  elements->count = (int)count;
}

static inline void window_lock(struct window *window, int exclusive, int target) {
  MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, window->handle);
}

static inline void window_unlock(struct window *window, int target) {
  MPI_Win_unlock(target, window->handle);
}
static inline void window_lock_all(struct window *window) { MPI_Win_lock_all(0, window->handle); }
static inline void window_unlock_all(struct window *window) { MPI_Win_unlock_all(window->handle); }
static inline void window_flush(struct window *window, int target) {
  MPI_Win_flush(target, window->handle);
}

static inline void window_fence(struct window *window, int place) {
  MPI_Win_fence(place == FENCE_FIRST  ? MPI_MODE_NOPRECEDE
                : place == FENCE_LAST ? MPI_MODE_NOSUCCEED
                                      : 0,
                window->handle);
}

/* Groups are made once, as a program would. */
static inline MPI_Group group_of(int other) {
  static MPI_Group groups[64];
  static unsigned char made[64];
  MPI_Group everybody;
  if (!made[other]) {
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    MPI_Group_incl(everybody, 1, &other, &groups[other]);
    MPI_Group_free(&everybody);
    made[other] = 1;
  }
  return groups[other];
}

static inline void window_post(struct window *window, int other) {
  MPI_Win_post(group_of(other), 0, window->handle);
}
static inline void window_start(struct window *window, int other) {
  MPI_Win_start(group_of(other), 0, window->handle);
}
static inline void window_complete(struct window *window) { MPI_Win_complete(window->handle); }
static inline void window_wait(struct window *window) { MPI_Win_wait(window->handle); }

static inline void window_put(struct window *window, const void *origin,
                              const struct elements *elements, int target, size_t at) {
  MPI_Put(origin, elements->count, elements->type, target, (MPI_Aint)at, elements->count,
          elements->type, window->handle);
}

static inline void window_get(struct window *window, void *result, const struct elements *elements,
                              int target, size_t at) {
  MPI_Get(result, elements->count, elements->type, target, (MPI_Aint)at, elements->count,
          elements->type, window->handle);
}

static inline void window_accumulate(struct window *window, const void *origin,
                                     const struct elements *elements, int target, size_t at) {
  MPI_Accumulate(origin, elements->count, elements->type, target, (MPI_Aint)at, elements->count,
                 elements->type, MPI_SUM, window->handle);
}

static inline void window_get_accumulate(struct window *window, const void *origin, void *result,
                                         const struct elements *elements, int target, size_t at) {
  MPI_Get_accumulate(origin, elements->count, elements->type, result, elements->count,
                     elements->type, target, (MPI_Aint)at, elements->count, elements->type, MPI_SUM,
                     window->handle);
}

static inline void window_fetch_add(struct window *window, const int64_t *origin, int64_t *result,
                                    int target, size_t at) {
  MPI_Fetch_and_op(origin, result, MPI_INT64_T, target, (MPI_Aint)at, MPI_SUM, window->handle);
}

static inline void window_compare_and_swap(struct window *window, const int64_t *origin,
                                           const int64_t *compare, int64_t *result, int target,
                                           size_t at) {
  MPI_Compare_and_swap(origin, compare, result, MPI_INT64_T, target, (MPI_Aint)at, window->handle);
}

#endif
