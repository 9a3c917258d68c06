! SPDX-License-Identifier: BSD-3-Clause
! Copyright (c) the ucxx_rs developers
!
! Two processes send tag messages to each other.
!
!     ./ping_pong           the server, which prints its port
!     ./ping_pong PORT      the client
!
! The server has a callback, which returns each message. The client waits. The last answer is longer
! than the client's buffer, to show an error.
module ping_pong_sides
  use ucxx_rs
  use, intrinsic :: iso_fortran_env, only: output_unit
  implicit none

  integer(c_int64_t), parameter :: ping = 1, pong = 2, second = 1000000000
  integer, parameter :: rounds = 1000, most = 4096

  ! What the callbacks of the server use. They get its address.
  type :: server_t
    type(ucxx_worker_t) :: worker
    type(ucxx_endpoint_t) :: client
    type(ucxx_recv_info_t) :: info
    integer(c_int8_t) :: message(most)
    integer :: returned = 0
    logical :: closed = .false.
  end type

contains

  subroutine serve(context)
    type(ucxx_context_t), intent(in) :: context
    type(server_t), target :: self
    type(ucxx_listener_t) :: listener
    type(ucxx_listener_params_t) :: params
    character(:), allocatable, target :: host

    call ucxx_check(ucxx_worker_create(context, worker=self%worker))
    host = ucxx_c_string('127.0.0.1')
    params%host = c_loc(host)
    params%on_connect = c_funloc(on_connect)
    params%on_connect_arg = c_loc(self)
    call ucxx_check(ucxx_listener_create(self%worker, params, listener))
    print '(i0)', ucxx_from_uint16(ucxx_listener_port(listener))
    flush (output_unit)

    do while (.not. self%closed)
      call ucxx_check(ucxx_worker_wait(self%worker, 60 * second))
    end do
    if (self%returned /= rounds + 1) error stop 'server: messages are missing'
    print '(a, i0, a)', 'server: ', self%returned, ' messages returned'
    call ucxx_close(self%client)
    call ucxx_close(listener)
    call ucxx_close(self%worker)
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
    call receive(self)
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

  subroutine receive(self)
    type(server_t), pointer, intent(in) :: self
    type(ucxx_op_params_t) :: params

    ! With this flag a completion is always reported by the callback, also one inside the call.
    params%flags = UCXX_FLAG_ALWAYS_CALLBACK
    params%callback = c_funloc(on_received)
    params%callback_arg = c_loc(self)
    params%recv_info = c_loc(self%info)
    params%source = self%client
    call ucxx_check(ucxx_tag_recv(self%worker, c_loc(self%message), ucxx_sizeof(self%message), &
      ping, UCXX_ALL_BITS, params))
  end subroutine

  subroutine on_received(arg, request, status) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_request_t), value :: request
    integer(ucxx_status_t), value :: status
    type(server_t), pointer :: self
    type(ucxx_op_params_t) :: params

    call c_f_pointer(arg, self)
    if (status < 0) error stop 'server: a receive failed'
    params%flags = UCXX_FLAG_ALWAYS_CALLBACK
    params%callback = c_funloc(on_sent)
    params%callback_arg = arg
    call ucxx_check(ucxx_tag_send(self%client, c_loc(self%message), int(self%info%length, &
      c_size_t), pong, params))
  end subroutine

  ! The buffer is free now, so it can receive the next message. The client sends one more than it
  ! checks.
  subroutine on_sent(arg, request, status) bind(c)
    type(c_ptr), value :: arg
    type(ucxx_request_t), value :: request
    integer(ucxx_status_t), value :: status
    type(server_t), pointer :: self

    call c_f_pointer(arg, self)
    if (status < 0) error stop 'server: a send failed'
    self%returned = self%returned + 1
    if (self%returned <= rounds) call receive(self)
  end subroutine

  subroutine ask(context)
    type(ucxx_context_t), intent(in) :: context
    type(ucxx_worker_t) :: worker
    type(ucxx_endpoint_t) :: server
    type(ucxx_op_params_t) :: wait
    real(c_double), target :: sent(most / 8), answer(most / 8)
    integer(c_int8_t), target :: short(8)
    integer(ucxx_status_t) :: status
    character(200) :: message
    character(8) :: port
    integer :: number, round

    call get_command_argument(1, port)
    read (port, *) number
    call ucxx_check(ucxx_worker_create(context, worker=worker))
    call ucxx_check(ucxx_endpoint_connect(worker, ucxx_c_string('127.0.0.1'), &
      ucxx_to_uint16(number), endpoint=server))

    wait%flags = UCXX_FLAG_WAIT
    wait%timeout_ns = 60 * second
    do round = 1, rounds
      call random_number(sent)
      answer = 0
      call ucxx_check(ucxx_tag_send(server, c_loc(sent), ucxx_sizeof(sent), ping, wait))
      call ucxx_check(ucxx_tag_recv(worker, c_loc(answer), ucxx_sizeof(answer), pong, &
        UCXX_ALL_BITS, wait))
      if (any(answer /= sent)) error stop 'client: the answer is not what was sent'
    end do

    call ucxx_check(ucxx_tag_send(server, c_loc(sent), ucxx_sizeof(sent), ping, wait))
    call ucxx_check(ucxx_tag_recv(worker, c_loc(short), ucxx_sizeof(short), pong, UCXX_ALL_BITS, &
      wait), status, message)
    if (status /= UCXX_ERR_MESSAGE_TRUNCATED) error stop 'client: expected a truncated message'
    print '(a, i0, a)', 'client: ', rounds, ' answers are right'
    print '(2a)', 'client: the error that was expected: ', trim(message)
    call ucxx_close(server)
    call ucxx_close(worker)
  end subroutine

end module ping_pong_sides

program ping_pong
  use ping_pong_sides
  implicit none
  type(ucxx_context_t) :: context

  call ucxx_check(ucxx_context_create(context=context))
  if (command_argument_count() == 0) then
    call serve(context)
  else
    call ask(context)
  end if
  call ucxx_close(context)
end program ping_pong
