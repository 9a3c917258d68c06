// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The environment, which Java can only read. */
@SuppressWarnings("restricted")
final class LibC {
  private static final MethodHandle SETENV =
      find("setenv", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
  private static final MethodHandle UNSETENV =
      find("unsetenv", FunctionDescriptor.of(JAVA_INT, ADDRESS));

  private LibC() {}

  private static MethodHandle find(String name, FunctionDescriptor type) {
    Linker linker = Linker.nativeLinker();
    return linker.downcallHandle(linker.defaultLookup().find(name).orElseThrow(), type);
  }

  static void setenv(String name, String value) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment key = arena.allocateFrom(name);
      int unused = (int) SETENV.invokeExact(key, arena.allocateFrom(value), 1);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  static void unsetenv(String name) {
    try (Arena arena = Arena.ofConfined()) {
      int unused = (int) UNSETENV.invokeExact(arena.allocateFrom(name));
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }
}
