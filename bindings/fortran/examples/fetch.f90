! SPDX-License-Identifier: BSD-3-Clause
! Copyright (c) the ucxx_rs developers
!
! A server has a function of a grid, and a client fetches ranges of it.
!
!     ./fetch           the server, which prints its port
!     ./fetch PORT      the client
!
! The header of a fetch is a range. The reply is its values, or a status of the program's own if the
! range is not on the grid.
module fetch_sides
  use ucxx_rs
  use, intrinsic :: iso_fortran_env, only: output_unit
  implicit none

  integer(c_int16_t), parameter :: values_id = 7
  integer(ucxx_status_t), parameter :: off_the_grid = UCXX_ERR_APPLICATION - 1
  integer(c_int64_t), parameter :: second = 1000000000
  integer, parameter :: grid = 100000, in_flight = 16, length = 1000

  type, bind(c) :: range_t
    integer(c_int64_t) :: first, last
  end type

  type :: server_t
    type(ucxx_endpoint_t) :: client
    integer :: replied = 0, rejected = 0
    logical :: closed = .false.
  end type

  ! A reply that is being sent. Its values stay where they are until on_sent.
  type :: reply_t
    type(server_t), pointer :: server
    real(c_double), allocatable :: values(:)
  end type

contains

  elemental real(c_double) function value_at(place)
    integer(c_int64_t), intent(in) :: place
    value_at = sqrt(real(place, c_double))
  end function

  subroutine serve(context)
    type(ucxx_context_t), intent(in) :: context
    type(server_t), target :: self
    type(ucxx_worker_t) :: worker
    type(ucxx_listener_t) :: listener
    type(ucxx_listener_params_t) :: params
    character(:), allocatable, target :: host

    call ucxx_check(ucxx_worker_create(context, worker=worker))
    call ucxx_check(ucxx_worker_set_fetch_handler(worker, values_id, c_funloc(on_fetch), &
      c_loc(self), c_null_funptr))
    host = ucxx_c_string('127.0.0.1')
    params%host = c_loc(host)
    params%on_connect = c_funloc(on_connect)
    params%on_connect_arg = c_loc(self)
    call ucxx_check(ucxx_listener_create(worker, params, listener))
    print '(i0)', ucxx_from_uint16(ucxx_listener_port(listener))
    flush (output_unit)

    do while (.not. self%closed)
      call ucxx_check(ucxx_worker_wait(worker, 60 * second))
    end do
    if (self%replied /= grid / length .or. self%rejected /= 1) error stop 'server: wrong counts'
    print '(a, i0, a, i0, a)', 'server: ', self%replied, ' replies, ', self%rejected, ' rejected'
    call ucxx_close(self%client)
    call ucxx_close(listener)
    call ucxx_close(worker)
  end subroutine

  subroutine on_connect(arg, conn_request) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_conn_request_t), value :: conn_request
    type(server_t), pointer :: self
    type(ucxx_endpoint_params_t) :: params

    call c_f_pointer(arg, self)
    params%on_close = c_funloc(on_close)
    params%on_close_arg = arg
    call ucxx_check(ucxx_endpoint_accept(conn_request, params, self%client))
    call ucxx_conn_request_destroy(conn_request)
  end subroutine

  subroutine on_close(arg, endpoint, status) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_endpoint_t), value :: endpoint
    integer(ucxx_status_t), value :: status
    type(server_t), pointer :: self

    call c_f_pointer(arg, self)
    if (status /= UCXX_ERR_CONNECTION_RESET) error stop 'server: not the normal end'
    self%closed = .true.
  end subroutine

  subroutine on_fetch(arg, fetch) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_fetch_t), value :: fetch
    type(server_t), pointer :: self
    integer(c_int8_t), pointer :: header(:)
    type(range_t) :: range
    type(reply_t), pointer :: reply
    type(ucxx_op_params_t) :: params
    type(c_ptr) :: header_address
    integer(c_size_t) :: header_length
    integer(c_int64_t) :: place

    call c_f_pointer(arg, self)
    header_address = ucxx_fetch_header(fetch, header_length)
    call c_f_pointer(header_address, header, [header_length])
    ! A copy, because the header may be at an address that suits no integer.
    range = transfer(header, range)
    if (header_length /= ucxx_sizeof(range)) then
      call ucxx_check(ucxx_fetch_reject(fetch, UCXX_ERR_REJECTED))
    else if (range%first < 1 .or. range%last > grid) then
      call ucxx_check(ucxx_fetch_reject(fetch, off_the_grid))
      self%rejected = self%rejected + 1
    else
      allocate (reply)
      reply%server => self
      reply%values = [(value_at(place), place=range%first, range%last)]
      params%flags = UCXX_FLAG_ALWAYS_CALLBACK
      params%callback = c_funloc(on_sent)
      params%callback_arg = c_loc(reply)
      call ucxx_check(ucxx_fetch_reply(fetch, c_loc(reply%values), &
        ucxx_sizeof(reply%values), params))
    end if
    call ucxx_fetch_destroy(fetch)
  end subroutine

  subroutine on_sent(arg, request, status) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_request_t), value :: request
    integer(ucxx_status_t), value :: status
    type(reply_t), pointer :: reply

    call c_f_pointer(arg, reply)
    if (status < 0) error stop 'server: a reply failed'
    reply%server%replied = reply%server%replied + 1
    deallocate (reply)
  end subroutine

  ! Sends up to in_flight fetches at a time.
  subroutine ask(context)
    type(ucxx_context_t), intent(in) :: context
    type(ucxx_worker_t) :: worker
    type(ucxx_endpoint_t) :: server
    type(ucxx_request_t) :: requests(in_flight)
    real(c_double), allocatable, target :: values(:, :)
    type(range_t), target :: range
    type(ucxx_op_params_t) :: wait
    integer(ucxx_status_t) :: status
    integer(c_int64_t) :: first, last, place
    character(8) :: port
    character(200) :: message
    integer :: number, column, columns

    call get_command_argument(1, port)
    read (port, *) number
    call ucxx_check(ucxx_worker_create(context, worker=worker))
    call ucxx_check(ucxx_endpoint_connect(worker, ucxx_c_string('127.0.0.1'), &
      ucxx_to_uint16(number), endpoint=server))

    allocate (values(length, in_flight))
    do first = 1, grid, length * in_flight
      columns = int(min(int(in_flight, c_int64_t), (grid - first + 1) / length))
      values = -1
      do column = 1, columns
        range%first = first + (column - 1) * length
        range%last = range%first + length - 1
        ! The call copies the header.
        call ucxx_check(ucxx_am_fetch(server, values_id, c_loc(range), ucxx_sizeof(range), &
          c_loc(values(1, column)), ucxx_sizeof(values(:, column)), &
          request=requests(column)))
      end do
      do column = 1, columns
        call finish(requests(column))
      end do
      last = first + columns * length - 1
      if (any(pack(values(:, :columns), .true.) /= [(value_at(place), place=first, last)])) &
        error stop 'client: wrong values'
    end do

    wait%flags = UCXX_FLAG_WAIT
    range = range_t(grid, grid + 1)
    call ucxx_check(ucxx_am_fetch(server, values_id, c_loc(range), ucxx_sizeof(range), &
      c_loc(values), ucxx_sizeof(values), wait), status, message)
    if (status /= off_the_grid) error stop 'client: expected a refusal'
    print '(a, i0, a)', 'client: ', grid, ' values are right'
    print '(2a)', 'client: the refusal that was expected: ', trim(message)
    call ucxx_close(server)
    call ucxx_close(worker)
  end subroutine

  ! The request is null if its operation completed inside the call.
  subroutine finish(request)
    type(ucxx_request_t), intent(inout) :: request
    integer(ucxx_status_t) :: status

    if (.not. c_associated(request%ptr)) return
    status = ucxx_request_wait(request, 60 * second)
    call ucxx_check(status)
    if (status == UCXX_INPROGRESS) error stop 'client: no reply within a minute'
    call ucxx_close(request)
  end subroutine

end module fetch_sides

program fetch
  use fetch_sides
  implicit none
  type(ucxx_context_t) :: context

  call ucxx_check(ucxx_context_create(context=context))
  if (command_argument_count() == 0) then
    call serve(context)
  else
    call ask(context)
  end if
  call ucxx_close(context)
end program fetch
