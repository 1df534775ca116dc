/*
 * For LD_PRELOAD: reads of the file FAIL_READS fail with EIO, as on a bad sector; the first FAIL_COUNT ones,
 * or all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int file) {
  static long failed = 0;
  const char *wanted = getenv("FAIL_READS"), *count = getenv("FAIL_COUNT");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (!wanted || length < 0) return 0;
  path[length] = 0;
  if (strcmp(path, wanted) != 0 || (count && failed >= atol(count))) return 0;
  failed++;
  errno = EIO;
  return 1;
}

ssize_t read(int file, void* to, size_t bytes) {
  return fails(file) ? -1 : syscall(SYS_read, file, to, bytes);
}
ssize_t pread64(int file, void* to, size_t bytes, off64_t at) {
  return fails(file) ? -1 : syscall(SYS_pread64, file, to, bytes, at);
}
