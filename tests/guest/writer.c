/* writer.c - writes the blocks of a part of a disk in turn, without end, and reads each one before it is written again: it must be as it was
 * written last.
 *
 *   writer DISK FIRST COUNT REPORT
 *
 * One IO at a time, of 4 KiB, past the page cache. Every write of a block differs from those before, so a write that reaches the disk
 * after a later one has been answered is found when the block is read next. fio cannot tell that: what it checks is whole then, too.
 *
 * The file REPORT has the number of writes, and the longest time of an IO in milliseconds. SIGUSR1 begins a new time, which the IO that is under
 * way belongs to. SIGTERM: reads all blocks once more, and ends with status 0. Another status: an IO failed, or a block is wrong.
 *
 * It is linked statically, as a guest has no C library of this machine's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define WORDS (BLOCK / sizeof(uint64_t))
#define REPORT_INTERVAL_MS 50

static volatile sig_atomic_t begins_anew, ends;
static int64_t longest;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		begins_anew = 1;
	else
		ends = 1;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The content of a block after its write of this number. */
static void fill(uint64_t *words, uint64_t place, uint64_t turn)
{
	uint64_t mixed = place * 0x9e3779b97f4a7c15 ^ turn * 0xbf58476d1ce4e5b9;
	size_t i;

	words[0] = place;
	words[1] = turn;
	for (i = 2; i < WORDS; i++)
		words[i] = mixed + i * 0x94d049bb133111eb;
}

static void timed(int is_write, int disk, uint64_t *words, uint64_t place)
{
	int64_t began = now_ms(), took;
	off_t offset = (off_t)place * BLOCK;
	ssize_t done = is_write ? pwrite(disk, words, BLOCK, offset) : pread(disk, words, BLOCK, offset);

	if (done != BLOCK) {
		printf("FAILED: writer: %s of block %llu: %s\n", is_write ? "write" : "read", (unsigned long long)place,
		       done < 0 ? strerror(errno) : "short");
		exit(1);
	}
	took = now_ms() - began;
	if (begins_anew) {
		begins_anew = 0;
		longest = 0;
	}
	if (took > longest)
		longest = took;
}

/* Reads a block, which must be as its write of this number left it. */
static void check(int disk, uint64_t *words, uint64_t place, uint64_t turn)
{
	static uint64_t expected[WORDS];

	timed(0, disk, words, place);
	fill(expected, place, turn);
	if (memcmp(words, expected, BLOCK) == 0)
		return;
	printf("FAILED: writer: block %llu is wrong: it begins as write %llu of block %llu, and write %llu was the last\n",
	       (unsigned long long)place, (unsigned long long)words[1], (unsigned long long)words[0], (unsigned long long)turn);
	exit(1);
}

/* Whoever reads the file finds a whole one. */
static void report(const char *path, uint64_t writes)
{
	static char new_path[4096];
	FILE *file;

	snprintf(new_path, sizeof(new_path), "%s.new", path);
	file = fopen(new_path, "w");
	if (file == NULL || fprintf(file, "%llu %lld\n", (unsigned long long)writes, (long long)longest) < 0 ||
	    fclose(file) != 0 || rename(new_path, path) != 0) {
		printf("FAILED: writer: %s: %s\n", path, strerror(errno));
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	uint64_t first, count, place, turn, writes = 0;
	int64_t reported = 0;
	uint64_t *words;
	int disk;

	if (argc != 5) {
		fprintf(stderr, "writer: see the head of writer.c\n");
		return 2;
	}
	first = strtoull(argv[2], NULL, 0);
	count = strtoull(argv[3], NULL, 0);
	words = aligned_alloc(BLOCK, BLOCK);
	disk = open(argv[1], O_RDWR | O_DIRECT);
	if (words == NULL || disk < 0) {
		perror("writer");
		return 2;
	}
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	for (turn = 1; !ends; turn++) {
		for (place = first; place < first + count; place++) {
			if (turn > 1)
				check(disk, words, place, turn - 1);
			fill(words, place, turn);
			timed(1, disk, words, place);
			writes++;
			if (now_ms() - reported >= REPORT_INTERVAL_MS) {
				report(argv[4], writes);
				reported = now_ms();
			}
		}
	}
	for (place = first; place < first + count; place++)
		check(disk, words, place, turn - 1);
	printf("writer: %llu writes, every block is right\n", (unsigned long long)writes);
	return 0;
}
