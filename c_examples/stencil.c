/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * stencil.c: heat spreads over a plate, which is cut into blocks, one for each member of a group.
 *
 *     cc -o stencil stencil.c $(pkg-config --cflags --libs ucxx_rs) -lm
 *     ./stencil [--fence] [--dies RANK] [--picture FILE] [WIDTH HEIGHT [STEPS]]
 *
 * How to start a group of processes: see member.h. Rank 0 prints one line:
 *
 *     4 members, 2 x 2 blocks of 320 x 240 cells, 500 steps: every bit is right
 *
 * The next temperature of a cell depends on its own and its four neighbours' temperatures. So a
 * block has a margin of one cell around it, with copies of the edges of the neighbouring blocks.
 * The cells are in a window, which is memory that other members write directly (docs/windows.md).
 * Before each step every member puts its edges into its neighbours' margins. A row is one
 * contiguous layout. A column is a vector, whose strides differ if the widths of the blocks do.
 * Nobody calls a receive.
 *
 * Members have to agree when a margin may be written, and when it may be read. By default each
 * member does that with its neighbours only:
 *
 * - post: the neighbours may write into this member's margin
 * - start: waits until the neighbours have posted
 * - complete: this member has written everything
 * - wait: waits until the neighbours have written into this member's margin
 *
 * With --fence all members meet instead.
 *
 * At the end rank 0 gets all blocks, computes the same alone, and compares every bit. The picture
 * is a PGM file, brighter where it is hotter.
 *
 * If a member dies, the calls of the members that wait for it fail. They end, then those that wait
 * for them, and so on. --dies shows it: that member dies after half of the steps.
 */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <signal.h>

#include "member.h"

#define DEFAULT_WIDTH 320
#define DEFAULT_HEIGHT 240
#define DEFAULT_STEPS 500
#define MOST_CELLS 16384 /* in each direction */
#define NOBODY UINT32_MAX

enum side { LEFT, RIGHT, ABOVE, BELOW, SIDES };

struct block {
  uint32_t x, y, width, height; /* in cells of the plate */
};

struct plate {
  uint32_t width, height;
  uint32_t across, down; /* blocks */
};

struct stencil {
  struct member member;
  struct plate plate;
  struct block mine;
  ucxx_window_t *window;
  /* The window's memory. It has two grids, because each step reads one and writes the other. */
  double *cells;
  uint32_t beside[SIDES]; /* ranks, or NOBODY at the edge of the plate */
  uint32_t neighbours[SIDES]; /* the ranks of the neighbours that exist */
  size_t neighbour_count;
};

/* Cuts the plate into blocks, as close to square as the number of members allows. */
static void cut(struct plate *plate, uint32_t members) {
  plate->across = 1;
  for (uint32_t across = 2; across <= members / across; across++)
    if (members % across == 0) plate->across = across;
  plate->down = members / plate->across;
  if (plate->width > plate->height) {
    uint32_t across = plate->across;
    plate->across = plate->down;
    plate->down = across;
  }
}

/* If the plate cannot be divided evenly, blocks differ by one cell. */
static struct block block_of(const struct plate *plate, uint32_t rank) {
  uint64_t column = rank % plate->across, row = rank / plate->across;
  struct block block;
  block.x = (uint32_t)(plate->width * column / plate->across);
  block.y = (uint32_t)(plate->height * row / plate->down);
  block.width = (uint32_t)(plate->width * (column + 1) / plate->across) - block.x;
  block.height = (uint32_t)(plate->height * (row + 1) / plate->down) - block.y;
  return block;
}

/* The number of cells from one row to the next. There is a margin on both sides. */
static size_t pitch(const struct block *block) { return (size_t)block->width + 2; }

static size_t grid_cells(const struct block *block) {
  return pitch(block) * ((size_t)block->height + 2);
}

/* The index of a cell in its owner's window. The cells of the margin are at -1, and at the width or
 * the height. */
static size_t place(const struct block *block, uint32_t grid, int64_t x, int64_t y) {
  return grid * grid_cells(block) + (size_t)(y + 1) * pitch(block) + (size_t)(x + 1);
}

/* The temperature at the beginning, and always around the plate. The upper edge is heated in the
 * middle. */
static double first_temperature(const struct plate *plate, int64_t x, int64_t y) {
  static const struct {
    double x, y, radius, temperature;
  } discs[] = {{0.25, 0.4, 0.12, 1}, {0.7, 0.3, 0.07, 0.8}, {0.55, 0.75, 0.18, 0.6}};
  if (y < 0) return x > plate->width / 4 && x < 3 * (int64_t)plate->width / 4 ? 1 : 0;
  if (x < 0 || x == plate->width || y == plate->height) return 0;
  for (size_t at = 0; at < sizeof discs / sizeof *discs; at++) {
    double east = (double)x - discs[at].x * plate->width,
           south = (double)y - discs[at].y * plate->height;
    double radius = discs[at].radius * plate->height;
    if (east * east + south * south < radius * radius) return discs[at].temperature;
  }
  return 0;
}

/* Cells that neighbours have to write begin as NAN. If one is not written, the NAN spreads and the
 * comparison at the end fails. */
static void fill(const struct plate *plate, const struct block *block, double *cells) {
  for (uint32_t grid = 0; grid < 2; grid++) {
    for (int64_t y = -1; y <= block->height; y++) {
      for (int64_t x = -1; x <= block->width; x++) {
        int64_t plate_x = block->x + x, plate_y = block->y + y;
        bool on_plate =
            plate_x >= 0 && plate_x < plate->width && plate_y >= 0 && plate_y < plate->height;
        bool in_block = x >= 0 && x < block->width && y >= 0 && y < block->height;
        cells[place(block, grid, x, y)] =
            on_plate && !in_block ? NAN : first_temperature(plate, plate_x, plate_y);
      }
    }
  }
}

/* The same sums in the same order, for any block. The factors are powers of two, so products are
 * exact, and a fused multiply-add changes nothing. So results can be compared with ==. */
static void advance(const struct block *block, double *cells, uint32_t from) {
  size_t row = pitch(block);
  for (int64_t y = 0; y < block->height; y++) {
    const double *now = cells + place(block, from, 0, y);
    double *next = cells + place(block, 1 - from, 0, y);
    for (size_t x = 0; x < block->width; x++) {
      const double *cell = now + x;
      next[x] = 0.5 * *cell + 0.125 * ((cell[-1] + cell[1]) + (*(cell - row) + cell[row]));
    }
  }
}

/* Puts an edge of this block into the margin of the block beside it. */
static void put_edge(const struct stencil *stencil, uint32_t grid, enum side side) {
  const struct block *mine = &stencil->mine,
                     theirs = block_of(&stencil->plate, stencil->beside[side]);
  ucxx_layout_t here, there;
  size_t from = 0, to = 0;
  if (side == LEFT || side == RIGHT) {
    ucxx_layout_init_vector(&here, UCXX_TYPE_DOUBLE, mine->height, 1, (int64_t)pitch(mine));
    ucxx_layout_init_vector(&there, UCXX_TYPE_DOUBLE, mine->height, 1, (int64_t)pitch(&theirs));
  } else {
    ucxx_layout_init_contiguous(&here, UCXX_TYPE_DOUBLE, mine->width);
    there = here;
  }
  switch (side) {
  case LEFT: from = place(mine, grid, 0, 0), to = place(&theirs, grid, theirs.width, 0); break;
  case RIGHT: from = place(mine, grid, mine->width - 1, 0), to = place(&theirs, grid, -1, 0); break;
  case ABOVE: from = place(mine, grid, 0, 0), to = place(&theirs, grid, 0, theirs.height); break;
  default: from = place(mine, grid, 0, mine->height - 1), to = place(&theirs, grid, 0, -1); break;
  }
  check(ucxx_window_put(stencil->window, stencil->cells + from, &here, stencil->beside[side],
                        (int64_t)to, &there),
        "put");
}

static void put_edges(const struct stencil *stencil, uint32_t grid) {
  for (int side = 0; side < SIDES; side++)
    if (stencil->beside[side] != NOBODY) put_edge(stencil, grid, (enum side)side);
}

/* All members meet. One fence a step is enough, because there are two grids: a member that is ahead
 * writes into margins of the grid that nobody reads before the next fence. */
static void exchange_by_fence(const struct stencil *stencil, uint32_t grid) {
  put_edges(stencil, grid);
  check(ucxx_window_fence(stencil->window, 0), "fence");
}

/* Only neighbours meet. */
static void exchange_with_neighbours(const struct stencil *stencil, uint32_t grid) {
  check(ucxx_window_post(stencil->window, stencil->neighbours, stencil->neighbour_count, 0),
        "post");
  check(ucxx_window_start(stencil->window, stencil->neighbours, stencil->neighbour_count, 0),
        "start");
  put_edges(stencil, grid);
  check(ucxx_window_complete(stencil->window), "complete");
  check(ucxx_window_wait(stencil->window), "wait");
}

/* Runs the steps, and returns the grid that has the result. `dies` is a rank, or NOBODY. */
static uint32_t run(const struct stencil *stencil, uint32_t steps, bool by_fence, uint32_t dies) {
  uint32_t grid = 0;
  if (by_fence) check(ucxx_window_fence(stencil->window, UCXX_ASSERT_NOPRECEDE), "fence");
  for (uint32_t step = 0; step < steps; step++) {
    if (by_fence)
      exchange_by_fence(stencil, grid);
    else
      exchange_with_neighbours(stencil, grid);
    if (stencil->member.rank == dies && step == steps / 2) raise(SIGKILL);
    advance(&stencil->mine, stencil->cells, grid);
    grid = 1 - grid;
  }
  return grid;
}

/* Rank 0 gets every block into its place on the whole plate. The others only wait. */
static void collect(const struct stencil *stencil, uint32_t grid, double *whole) {
  check(ucxx_window_fence(stencil->window, UCXX_ASSERT_NOPRECEDE | UCXX_ASSERT_NOPUT), "fence");
  for (uint32_t rank = 0; stencil->member.rank == 0 && rank < stencil->member.size; rank++) {
    struct block block = block_of(&stencil->plate, rank);
    ucxx_layout_t here, there;
    ucxx_layout_init_vector(&here, UCXX_TYPE_DOUBLE, block.height, block.width,
                            stencil->plate.width);
    ucxx_layout_init_vector(&there, UCXX_TYPE_DOUBLE, block.height, block.width,
                            (int64_t)pitch(&block));
    double *corner = whole + (size_t)block.y * stencil->plate.width + block.x;
    check(ucxx_window_get(stencil->window, corner, &here, rank, (int64_t)place(&block, grid, 0, 0),
                          &there),
          "get");
  }
  check(ucxx_window_fence(stencil->window,
                          UCXX_ASSERT_NOSTORE | UCXX_ASSERT_NOPUT | UCXX_ASSERT_NOSUCCEED),
        "fence");
}

/* Computes the whole plate as one block, without the library, and compares. */
static bool is_what_one_computes(const struct plate *plate, uint32_t steps, const double *whole) {
  struct block all = {0, 0, plate->width, plate->height};
  double *cells = zeros(2 * grid_cells(&all), sizeof(double));
  bool same = true;
  fill(plate, &all, cells);
  for (uint32_t step = 0; step < steps; step++) advance(&all, cells, step % 2);
  for (uint32_t y = 0; same && y < plate->height; y++) {
    const double *row = cells + place(&all, steps % 2, 0, y);
    same = memcmp(row, whole + (size_t)y * plate->width, plate->width * sizeof(double)) == 0;
    if (!same)
      fprintf(stderr, "error: row %" PRIu32 " is not what one process alone computes\n", y);
  }
  free(cells);
  return same;
}

static bool write_picture(const char *path, const struct plate *plate, const double *whole) {
  size_t cells = (size_t)plate->width * plate->height;
  unsigned char *pixels = zeros(cells, 1);
  for (size_t at = 0; at < cells; at++) pixels[at] = (unsigned char)(whole[at] * 255 + 0.5);
  FILE *file = fopen(path, "wb");
  bool written =
      file != NULL &&
      fprintf(file, "P5\n%" PRIu32 " %" PRIu32 "\n255\n", plate->width, plate->height) > 0 &&
      fwrite(pixels, 1, cells, file) == cells;
  if (file != NULL && fclose(file) != 0) written = false;
  if (!written) perror(path);
  free(pixels);
  return written;
}

static void find_neighbours(struct stencil *stencil) {
  uint32_t rank = stencil->member.rank, across = stencil->plate.across;
  stencil->beside[LEFT] = rank % across > 0 ? rank - 1 : NOBODY;
  stencil->beside[RIGHT] = rank % across + 1 < across ? rank + 1 : NOBODY;
  stencil->beside[ABOVE] = rank >= across ? rank - across : NOBODY;
  stencil->beside[BELOW] = rank + across < stencil->member.size ? rank + across : NOBODY;
  for (int side = 0; side < SIDES; side++)
    if (stencil->beside[side] != NOBODY)
      stencil->neighbours[stencil->neighbour_count++] = stencil->beside[side];
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--fence] [--dies RANK] [--picture FILE] [WIDTH HEIGHT [STEPS]]\n",
          program);
  return 2;
}

int main(int argc, char **argv) {
  struct stencil stencil = {0};
  struct plate *plate = &stencil.plate;
  const char *picture = NULL;
  bool by_fence = false, good = true;
  uint32_t steps = DEFAULT_STEPS, dies = NOBODY;
  plate->width = DEFAULT_WIDTH;
  plate->height = DEFAULT_HEIGHT;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (strcmp(argv[at], "--fence") == 0)
      by_fence = true;
    else if (strcmp(argv[at], "--picture") == 0 && at + 1 < argc)
      picture = argv[++at];
    else if (strcmp(argv[at], "--dies") == 0 && at + 1 < argc &&
             read_number(argv[at + 1], 0, NOBODY, &dies))
      at++;
    else
      return usage(argv[0]);
  }
  if (at < argc && (argc - at < 2 || !read_number(argv[at], 1, MOST_CELLS, &plate->width) ||
                    !read_number(argv[at + 1], 1, MOST_CELLS, &plate->height)))
    return usage(argv[0]);
  if (argc - at > 3 || (argc - at == 3 && !read_number(argv[at + 2], 1, UINT32_MAX, &steps)))
    return usage(argv[0]);

  join(&stencil.member);
  cut(plate, stencil.member.size);
  if (plate->width < plate->across || plate->height < plate->down) {
    fprintf(stderr, "error: %" PRIu32 " x %" PRIu32 " blocks need as many cells\n", plate->across,
            plate->down);
    return EXIT_FAILURE;
  }
  stencil.mine = block_of(plate, stencil.member.rank);
  find_neighbours(&stencil);
  size_t bytes = 2 * grid_cells(&stencil.mine) * sizeof(double);
  void *base = NULL;
  check(ucxx_window_allocate(stencil.member.group, bytes, sizeof(double), NULL, &base,
                             &stencil.window),
        "window");
  stencil.cells = base;
  fill(plate, &stencil.mine, stencil.cells);

  uint32_t result = run(&stencil, steps, by_fence, dies);
  double *whole =
      stencil.member.rank == 0 ? zeros((size_t)plate->width * plate->height, sizeof(double)) : NULL;
  collect(&stencil, result, whole);
  check(ucxx_window_close(stencil.window), "close");
  ucxx_window_destroy(stencil.window);
  leave(&stencil.member);

  if (stencil.member.rank == 0) {
    good = is_what_one_computes(plate, steps, whole) &&
           (picture == NULL || write_picture(picture, plate, whole));
    if (good)
      printf("%" PRIu32 " members, %" PRIu32 " x %" PRIu32 " blocks of %" PRIu32 " x %" PRIu32
             " cells, %" PRIu32 " steps: every bit is right\n",
             stencil.member.size, plate->across, plate->down, plate->width, plate->height, steps);
  }
  free(whole);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
