! SPDX-License-Identifier: BSD-3-Clause
! Copyright (c) the ucxx_rs developers
!
! Heat spreads over a plate, whose columns are divided between the members of a group.
!
!     ucxx_rs_group 4 ./stencil [HEIGHT WIDTH STEPS]
!
! The next temperature of a cell depends on its own and its four neighbours' temperatures. So each
! member has a margin of one column on both sides, with copies of its neighbours' edges. The cells
! are in a window, and before each step every member puts its edges into its neighbours' margins. A
! column is contiguous in Fortran. Nobody calls a receive.
!
! Only neighbours wait for each other:
!
! - post: the neighbours may write into this member's margins
! - start: waits until the neighbours have posted
! - complete: this member has written everything
! - wait: waits until the neighbours have written
!
! At the end rank 0 gets all columns, computes the same alone, and compares every bit.
program stencil
  use ucxx_rs
  implicit none

  type(ucxx_context_t) :: context
  type(ucxx_worker_t) :: worker
  type(ucxx_group_t) :: group
  type(ucxx_group_params_t) :: params
  type(ucxx_window_t) :: window
  type(c_ptr) :: base
  type(ucxx_layout_t) :: column
  ! Two grids, because each step reads one and writes the other: rows, columns, grid. The edges of
  ! the plate are at 0 and at the size plus 1.
  real(c_double), pointer :: cells(:, :, :)
  real(c_double), allocatable, target :: plate(:, :)
  integer(c_int32_t), allocatable :: neighbours(:)
  integer(c_int32_t) :: rank, members, left, right
  integer :: height, width, steps, step, now

  call read_sizes()
  params%bootstrap = UCXX_BOOTSTRAP_ENV
  call ucxx_check(ucxx_context_create(context=context))
  call ucxx_check(ucxx_worker_create(context, worker=worker))
  call ucxx_check(ucxx_group_create(worker, params, group))
  rank = ucxx_group_rank(group)
  members = ucxx_group_size(group)
  if (members > width) error stop 'stencil: each member needs a column'
  left = rank - 1
  right = rank + 1
  neighbours = pack([left, right], [left >= 0, right < members])

  call ucxx_check(ucxx_window_allocate(group, grid_cells(rank) * 2 * c_sizeof(0._c_double), &
    int(c_sizeof(0._c_double), c_int32_t), base=base, window=window))
  call attach(cells, base, columns_of(rank))
  call ucxx_layout_init_contiguous(column, UCXX_TYPE_DOUBLE, int(height, c_int64_t))
  call fill(cells, first_of(rank))

  now = 1
  do step = 1, steps
    call exchange()
    call advance(cells(:, :, now), cells(:, :, 3 - now))
    now = 3 - now
  end do
  call collect()
  call ucxx_check(ucxx_window_close(window))
  call ucxx_close(window)
  call ucxx_close(group)
  call ucxx_close(worker)
  call ucxx_close(context)
  if (rank == 0) call compare()

contains

  subroutine read_sizes()
    character(16) :: words(3)
    integer :: index

    words = [character(16) :: '240', '320', '500']
    do index = 1, min(3, command_argument_count())
      call get_command_argument(index, words(index))
    end do
    read (words(1), *) height
    read (words(2), *) width
    read (words(3), *) steps
  end subroutine

  ! The columns of a member are those after first_of(member), up to first_of(member + 1).
  pure integer function first_of(member)
    integer(c_int32_t), intent(in) :: member
    first_of = int(int(width, c_int64_t) * member / members)
  end function

  pure integer function columns_of(member)
    integer(c_int32_t), intent(in) :: member
    columns_of = first_of(member + 1) - first_of(member)
  end function

  pure integer(c_size_t) function grid_cells(member)
    integer(c_int32_t), intent(in) :: member
    grid_cells = (height + 2_c_size_t) * (columns_of(member) + 2)
  end function

  ! Where row 1 of a column of a member is in its window.
  pure integer(c_int64_t) function place(member, of_column, grid)
    integer(c_int32_t), intent(in) :: member
    integer, intent(in) :: of_column, grid
    place = (grid - 1) * grid_cells(member) + of_column * (height + 2_c_int64_t) + 1
  end function

  subroutine attach(array, address, columns)
    real(c_double), pointer, intent(out) :: array(:, :, :)
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: columns
    real(c_double), pointer :: from_one(:, :, :)

    call c_f_pointer(address, from_one, [height + 2, columns + 2, 2])
    array(0:, 0:, 1:) => from_one
  end subroutine

  ! The upper edge of the plate is hot, and there is a warm disc on it. `before` is the number of
  ! columns of the plate before this block.
  subroutine fill(block, before)
    real(c_double), intent(out) :: block(0:, 0:, :)
    integer, intent(in) :: before
    integer :: row, of_column

    block = 0
    block(0, :, :) = 1
    do of_column = 1, ubound(block, 2) - 1
      do row = 1, height
        if (hypot(row - 0.6 * height, before + of_column - 0.4 * width) < 0.2 * height) &
          block(row, of_column, :) = 0.75
      end do
    end do
  end subroutine

  ! The same sums in the same order for any number of columns, so every bit is the same.
  subroutine advance(from, to)
    real(c_double), intent(in) :: from(0:, 0:)
    real(c_double), intent(inout) :: to(0:, 0:)
    integer :: row, of_column

    do of_column = 1, ubound(from, 2) - 1
      do row = 1, height
        to(row, of_column) = 0.5 * from(row, of_column) + 0.125 * &
          ((from(row - 1, of_column) + from(row + 1, of_column)) + &
          (from(row, of_column - 1) + from(row, of_column + 1)))
      end do
    end do
  end subroutine

  subroutine exchange()
    integer(c_size_t) :: count

    count = size(neighbours, kind=c_size_t)
    call ucxx_check(ucxx_window_post(window, neighbours, count, 0))
    call ucxx_check(ucxx_window_start(window, neighbours, count, 0))
    if (left >= 0) call put(1, left, columns_of(left) + 1)
    if (right < members) call put(columns_of(rank), right, 0)
    call ucxx_check(ucxx_window_complete(window))
    call ucxx_check(ucxx_window_wait(window))
  end subroutine

  ! Puts a column of this member into a column of another one.
  subroutine put(mine, target_rank, theirs)
    integer, intent(in) :: mine, theirs
    integer(c_int32_t), intent(in) :: target_rank

    call ucxx_check(ucxx_window_put(window, c_loc(cells(1, mine, now)), column, target_rank, &
      place(target_rank, theirs, now), column))
  end subroutine

  ! Rank 0 gets the columns of all members. The others only wait.
  subroutine collect()
    type(ucxx_layout_t) :: here, there
    integer(c_int32_t) :: member
    integer(c_int64_t) :: rows, columns

    rows = height
    if (rank == 0) allocate (plate(height, width))
    call ucxx_check(ucxx_window_fence(window, UCXX_ASSERT_NOPRECEDE))
    if (rank == 0) then
      do member = 0, members - 1
        columns = columns_of(member)
        call ucxx_layout_init_contiguous(here, UCXX_TYPE_DOUBLE, rows * columns)
        call ucxx_layout_init_vector(there, UCXX_TYPE_DOUBLE, columns, rows, rows + 2)
        call ucxx_check(ucxx_window_get(window, c_loc(plate(1, first_of(member) + 1)), here, &
          member, place(member, 1, now), there))
      end do
    end if
    call ucxx_check(ucxx_window_fence(window, UCXX_ASSERT_NOSUCCEED))
  end subroutine

  subroutine compare()
    real(c_double), allocatable :: alone(:, :, :)
    integer(c_int64_t), allocatable :: bits(:), wanted(:)

    allocate (alone(0:height + 1, 0:width + 1, 2))
    call fill(alone, 0)
    now = 1
    do step = 1, steps
      call advance(alone(:, :, now), alone(:, :, 3 - now))
      now = 3 - now
    end do
    bits = transfer(plate, bits)
    wanted = transfer(alone(1:height, 1:width, now), wanted)
    if (any(bits /= wanted)) error stop 'stencil: not what one process alone computes'
    print '(i0, a, i0, a, i0, a, i0, a)', members, ' members, ', height, ' x ', width, ' cells, ', &
      steps, ' steps: every bit is right'
  end subroutine

end program stencil
