/* Makes disk calls fail, delay or do nothing, by environment variables:
     STEMMA_FAIL=<call>:<errno>:<first>:<count>  calls number first to first+count-1 fail with errno
     STEMMA_SLOW_SYNC_MS=<time>                  a delay before each fdatasync
     STEMMA_NO_SYNC=1                            fsync and fdatasync do nothing */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int fails(const char *call) {
    const char *order = getenv("STEMMA_FAIL");
    char name[32];
    int error;
    long first, count;
    if (!order || sscanf(order, "%31[^:]:%d:%ld:%ld", name, &error, &first, &count) != 4) return 0;
    if (strcmp(name, call) != 0) return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (number < first || number >= first + count) return 0;
    errno = error;
    return 1;
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
    if (fails("fsync")) return -1;
    return getenv("STEMMA_NO_SYNC") ? 0 : NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    if (fails("fdatasync")) return -1;
    const char *wait = getenv("STEMMA_SLOW_SYNC_MS");
    if (wait) usleep(1000 * atoi(wait));
    return getenv("STEMMA_NO_SYNC") ? 0 : NEXT(fdatasync)(fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    if (fails("pwrite")) return -1;
    return NEXT(pwrite64)(fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    if (fails("pwrite")) return -1;
    return NEXT(pwrite)(fd, bytes, length, offset);
}
