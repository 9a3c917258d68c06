// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// stencil.cpp: heat spreads over a plate, which is cut into blocks, one for each member of a group.
// ../stencil.c does the same in C, and explains it.
//
//     c++ -std=c++17 -o stencil stencil.cpp $(pkg-config --cflags --libs ucxx_rs)
//     export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711
//     for rank in 0 1 2 3; do RANK=$rank ./stencil & done; wait
//
// Arguments: [--fence] [--dies RANK] [--picture FILE] [WIDTH HEIGHT [STEPS]]. Rank 0 prints a line:
//
//     4 members, 2 x 2 blocks of 320 x 240 cells, 500 steps: every bit is right
//
// A block has a margin of one cell around it, with copies of the edges of the neighbouring blocks.
// The cells are in a window. Before each step every member puts its edges into its neighbours'
// margins. An epoch is an object: post() lets neighbours write here, and start() write there.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>

#include <ucxx_rs.hpp>

namespace ux = ucxx_rs;
using number = std::int64_t;

struct block {
  number x, y, width, height; // in cells of the plate
  bool has(number c, number r) const { return c >= x && c < x + width && r >= y && r < y + height; }
  number pitch() const { return width + 2; } // from one row to the next, with a margin on each side
  number cells() const { return pitch() * (height + 2); }
  // The index of a cell of the plate in its owner's window, which has two grids. Each step reads
  // one of them and writes the other.
  number place(number grid, number column, number row) const {
    return grid * cells() + (row - y + 1) * pitch() + column - x + 1;
  }
  // One step. The same sums in the same order for any block, so that bits can be compared.
  void advance(double *all, number from) const {
    for (number row = y; row < y + height; row++) {
      const double *cell = all + place(from, x, row), *end = cell + width;
      for (double *next = all + place(1 - from, x, row); cell < end; cell++)
        *next++ = cell[0] / 2 + (cell[-1] + cell[1] + (*(cell - pitch()) + cell[pitch()])) / 8;
    }
  }
};

struct plate : block {
  number across = 1, down = 1; // blocks
  // Cuts it into blocks, as close to square as the number of members allows.
  void cut(number members) {
    for (number n = 2; n <= members / n; n++)
      if (members % n == 0) across = n;
    down = members / across;
    if (width > height) std::swap(across, down);
    if (width < across || height < down) throw std::runtime_error("more blocks than cells");
  }
  block of(number rank) const {
    number column = rank % across, row = rank / across;
    number left = width * column / across, top = height * row / down;
    return {left, top, width * (column + 1) / across - left, height * (row + 1) / down - top};
  }
  // The temperature at the beginning, and always around the plate.
  double first(number column, number row) const {
    if (row < 0) return column > width / 4 && column < 3 * width / 4 ? 1 : 0;
    if (!has(column, row)) return 0;
    const double w = double(width), h = double(height),
                 discs[][4] = {
                     {0.25, 0.4, 0.12, 1}, {0.7, 0.3, 0.07, 0.8}, {0.55, 0.75, 0.18, 0.6}};
    for (auto [east, south, radius, heat] : discs)
      if (std::hypot(double(column) - east * w, double(row) - south * h) < radius * h) return heat;
    return 0;
  }
  // Cells that neighbours have to write begin as NAN. If one is not written, the result is wrong.
  void fill(const block &b, double *cells) const {
    for (number grid : {0, 1})
      for (number r = b.y - 1; r <= b.y + b.height; r++)
        for (number c = b.x - 1; c <= b.x + b.width; c++)
          cells[b.place(grid, c, r)] = has(c, r) && !b.has(c, r) ? NAN : first(c, r);
  }
};

int main(int argc, char **argv) try {
  plate p = {{0, 0, 320, 240}};
  number steps = 500, dies = -1, *numbers[] = {&p.width, &p.height, &steps}, **next = numbers;
  const char *picture = nullptr;
  bool by_fence = false;
  for (int at = 1; at < argc; at++) {
    std::string word = argv[at];
    if (word == "--fence")
      by_fence = true;
    else if (word == "--picture" && at + 1 < argc)
      picture = argv[++at];
    else if (bool death = word == "--dies"; at + death < argc && next < std::end(numbers))
      (death ? dies : **next++) = std::stol(argv[at += death]);
    else
      throw std::invalid_argument("an unknown argument: " + word);
  }

  auto worker = ux::worker::create(ux::context::create());
  auto group = ux::group::create(worker);
  p.cut(group.size());
  const auto rank = group.rank();
  const auto mine = p.of(rank);
  auto window = ux::window<double>::allocate(group, std::size_t(2 * mine.cells()));
  double *const cells = window.data();
  p.fill(mine, cells);
  std::vector<std::uint32_t> beside; // the neighbours
  for (auto [dx, dy] : {std::pair{-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
    number column = rank % p.across + dx, row = rank / p.across + dy;
    if (column >= 0 && column < p.across && row >= 0 && row < p.down)
      beside.push_back(std::uint32_t(row * p.across + column));
  }
  // Puts the edges of this block into the margins of the blocks beside it: columns or rows.
  auto put_edges = [&](number grid) {
    for (auto to : beside) {
      auto theirs = p.of(to);
      auto column = std::max(mine.x, theirs.x - 1), row = std::max(mine.y, theirs.y - 1);
      bool tall = theirs.x != mine.x;
      auto edge = [&](const block &b) {
        return ux::layout<double>(std::size_t(tall ? b.height : b.width), 1, tall ? b.pitch() : 1);
      };
      window.put(cells + mine.place(grid, column, row), edge(mine), to,
                 theirs.place(grid, column, row), edge(theirs));
    }
  };
  if (by_fence) window.fence(ux::assertion::no_precede);
  for (number step = 0; step < steps; step++) {
    if (by_fence) { // All members meet.
      put_edges(step % 2);
      window.fence();
    } else { // Only neighbours meet.
      auto exposed = window.post(beside);
      auto access = window.start(beside);
      put_edges(step % 2);
      access.end(); // This member has written everything.
      exposed.end(); // Its neighbours have.
    }
    if (rank == dies && step == steps / 2) std::raise(SIGKILL);
    mine.advance(cells, step % 2);
  }

  // Rank 0 gets every block into its place on the whole plate. The others only wait.
  std::vector<double> whole(rank == 0 ? std::size_t(2 * p.cells()) : 0), alone = whole;
  auto reading = window.fence_epoch();
  for (std::uint32_t from = 0; rank == 0 && from < group.size(); from++) {
    auto b = p.of(from);
    const auto h = std::size_t(b.height), w = std::size_t(b.width);
    ux::layout<double> here(h, w, p.pitch()), there(h, w, b.pitch());
    window.get(whole.data() + p.place(0, b.x, b.y), here, from, b.place(steps % 2, b.x, b.y),
               there);
  }
  reading.end();
  window.close();
  if (rank != 0) return 0;
  // It computes the same alone, and compares every bit.
  std::ofstream file(picture ? picture : "/dev/null", std::ios::binary);
  file << "P5\n" << p.width << ' ' << p.height << "\n255\n";
  p.fill(p, alone.data());
  for (number step = 0; step < steps; step++) p.advance(alone.data(), step % 2);
  for (number y = 0; y < p.height; y++) {
    auto got = whole.begin() + p.place(0, 0, y), own = alone.begin() + p.place(steps % 2, 0, y);
    if (!std::equal(got, got + p.width, own))
      throw std::runtime_error("row " + std::to_string(y) + " is not what one process computes");
    for (number x = 0; x < p.width; x++) file.put(char(int(got[x] * 255 + 0.5)));
  }
  if (!file.flush()) throw std::runtime_error("the picture cannot be written");
  std::cout << group.size() << " members, " << p.across << " x " << p.down << " blocks of "
            << p.width << " x " << p.height << " cells, " << steps
            << " steps: every bit is right\n";
} catch (const std::exception &e) {
  return std::cerr << "error: " << e.what() << '\n', EXIT_FAILURE;
}
