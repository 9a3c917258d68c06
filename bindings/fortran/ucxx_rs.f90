! SPDX-License-Identifier: BSD-3-Clause
! Copyright (c) the ucxx_rs developers
!
! The Fortran interface of ucxx_rs. README.md has the rules, and include/ucxx_rs.h the reference.
!
! The generated modules have everything that the C library has, with the same names. This one adds
! what Fortran needs: errors as stat and errmsg, and characters.
module ucxx_rs
  use, intrinsic :: iso_c_binding
  use ucxx_rs_types
  use ucxx_rs_functions
  implicit none
  public
  private :: c_strlen, text_of_pointer, text_of_array, text_of_room

  ! UINT64_MAX: no time limit, and all bits of a tag.
  integer(c_int64_t), parameter :: UCXX_NO_LIMIT = -1_c_int64_t
  integer(c_int64_t), parameter :: UCXX_ALL_BITS = -1_c_int64_t

  ! The text up to its NUL: of a const char * of the library, of an array inside a struct, and of a
  ! variable that a function has filled.
  interface ucxx_text
    module procedure text_of_pointer, text_of_array, text_of_room
  end interface

  interface
    pure function c_strlen(text) bind(c, name='strlen') result(length)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! Checks what a function returned. Call it directly after that function: the text of an error is
  ! about the last call of this thread. Positive statuses are no errors.
  !
  ! As in an allocate statement, an error ends the program if stat is absent.
  subroutine ucxx_check(status, stat, errmsg)
    integer(ucxx_status_t), intent(in) :: status
    integer(ucxx_status_t), intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: text

    if (status < 0) then
      text = ucxx_error(status)
      if (.not. present(stat)) error stop text
      if (present(errmsg)) errmsg = text
    end if
    if (present(stat)) stat = status
  end subroutine

  ! The text for a program to print.
  function ucxx_error(status) result(text)
    integer(ucxx_status_t), intent(in) :: status
    character(:), allocatable :: text

    text = ucxx_text(ucxx_error_text(status))
  end function

  ! A text as C takes it: without trailing blanks, and with a NUL. It is f_c_string of Fortran 2023.
  pure function ucxx_c_string(text) result(string)
    character(*), intent(in) :: text
    character(:), allocatable :: string

    string = trim(text) // c_null_char
  end function

  ! Length in bytes, also of what c_sizeof refuses: allocatable arrays, and parts of arrays.
  pure function ucxx_sizeof(value) result(length)
    class(*), intent(in) :: value(..)
    integer(c_size_t) :: length

    length = size(value, kind=c_size_t) * (storage_size(value) / 8)
  end function

  ! Port numbers and other uint16_t, which Fortran has only with a sign.
  elemental function ucxx_to_uint16(number) result(bits)
    integer, intent(in) :: number
    integer(c_int16_t) :: bits

    bits = int(merge(number - 65536, number, number > 32767), c_int16_t)
  end function

  elemental function ucxx_from_uint16(bits) result(number)
    integer(c_int16_t), intent(in) :: bits
    integer :: number

    number = iand(int(bits), 65535)
  end function

  function text_of_pointer(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)

    text = ''
    if (.not. c_associated(pointer)) return
    call c_f_pointer(pointer, characters, [c_strlen(pointer)])
    text = text_of_array(characters)
  end function

  pure function text_of_array(characters) result(text)
    character(kind=c_char), intent(in) :: characters(:)
    character(:), allocatable :: text
    integer :: length, index

    length = findloc(characters, c_null_char, dim=1) - 1
    if (length < 0) length = size(characters)
    allocate (character(length) :: text)
    do index = 1, length
      text(index:index) = characters(index)
    end do
  end function

  pure function text_of_room(room) result(text)
    character(*), intent(in) :: room
    character(:), allocatable :: text
    integer :: length

    length = index(room, c_null_char) - 1
    if (length < 0) length = len(room)
    text = room(:length)
  end function

end module ucxx_rs
