/* The only file of a directory, read in a few system calls. */
#pragma once
#include <stdint.h>
#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct directory_entry { /* linux_dirent64, which no header has */
  uint64_t inode;
  int64_t next;
  uint16_t size;
  uint8_t kind;
  char name[];
};

/* Copy the name of the only entry of an open directory, and return its length; 0 if it has none, several, or one with a
 * longer name. */
static int only_name(int folder, char *name, size_t room) {
  char buffer[2048] __attribute__((aligned(8)));
  int found = 0;
  size_t length = 0;
  for (;;) {
    long count = syscall(SYS_getdents64, folder, buffer, sizeof(buffer));
    if (count <= 0) return count == 0 && found == 1 ? (int)length : 0;
    for (long at = 0; at < count;) {
      struct directory_entry *entry = (struct directory_entry *)(buffer + at);
      at += entry->size;
      if (entry->name[0] == '.' && (!entry->name[1] || (entry->name[1] == '.' && !entry->name[2]))) continue;
      length = strlen(entry->name);
      if (++found > 1 || length >= room) return 0;
      memcpy(name, entry->name, length + 1);
    }
  }
}

/* Read the first `count` bytes of the only file of a directory, by the directory's name in an open one.
 *
 * Returns the length of its name: it is a regular file of `*size` bytes with no data after these; `*got` bytes were
 * read. 0: anything else, errors too. No symbolic link is followed, and nothing is waited for. */
static int read_only_file(int parent, const char *folder_name, char *name, size_t room, char *data, int64_t count,
                          long long *size, long long *got) {
  int found = 0, length, fd = -1;
  int folder = openat(parent, folder_name, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
  if (folder < 0) return 0;
  length = only_name(folder, name, room);
  if (length > 0) {
    struct stat status;
    fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, count, SEEK_DATA) < 0 &&
        errno == ENXIO) {
      *size = status.st_size;
      *got = pread(fd, data, (size_t)count, 0);
      found = *got >= 0 ? length : 0;
    }
    if (fd >= 0) close(fd);
  }
  close(folder);
  return found;
}
#else
static int read_only_file(int parent, const char *folder_name, char *name, size_t room, char *data, int64_t count,
                          long long *size, long long *got) {
  (void)parent; (void)folder_name; (void)name; (void)room; (void)data; (void)count; (void)size; (void)got;
  return 0;
}
#endif
