/* Shuts a mounted ext4 file system down at once, as a power cut does: no further write reaches its disk. */
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, __u32)
#define WITHOUT_THE_JOURNAL 2

int main(int count, char **arguments) {
    __u32 how = WITHOUT_THE_JOURNAL;
    int folder = count == 2 ? open(arguments[1], O_RDONLY) : -1;
    if (folder >= 0 && ioctl(folder, EXT4_IOC_SHUTDOWN, &how) == 0) return 0;
    perror("shutting down");
    return 1;
}
