/* pr.c - Linux's own persistent reservations (linux/pr.h) from the command line, one call a time.
 *
 *   pr DEVICE register OLD NEW [ignore]    pr DEVICE reserve KEY TYPE    pr DEVICE release KEY TYPE
 *   pr DEVICE preempt KEY THEIRS TYPE      pr DEVICE abort KEY THEIRS TYPE
 *   pr DEVICE clear KEY
 *
 * TYPE is a number of linux/pr.h: 1 write exclusive, 2 exclusive access, 3 and 4 the same for registrants only.
 * Prints "ok", or "refused N": N is the call's answer, an NVMe status (0x83: reservation conflict) or a PR_STS_*; errors of the
 * system go to standard error. Exit status: 0, 1 or 2.
 *
 * It is linked statically, as a guest has no C library of this machine's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/pr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

static unsigned long long number(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0') {
		fprintf(stderr, "pr: %s is no number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned long long n[3] = { 0, 0, 0 };
	const char *verb = argc > 2 ? argv[2] : "";
	int ignore = argc > 5 && strcmp(argv[5], "ignore") == 0;
	int file, answer, i;

	for (i = 3; i < argc && i < 6; i++)
		n[i - 3] = ignore && i == 5 ? 0 : number(argv[i]);
	file = open(argc > 1 ? argv[1] : "", O_RDWR);
	if (file < 0) {
		perror("pr: open");
		return 2;
	}
	if (strcmp(verb, "register") == 0) {
		struct pr_registration call = { n[0], n[1], ignore ? PR_FL_IGNORE_KEY : 0, 0 };
		answer = ioctl(file, IOC_PR_REGISTER, &call);
	} else if (strcmp(verb, "reserve") == 0 || strcmp(verb, "release") == 0) {
		struct pr_reservation call = { n[0], n[1], 0 };
		answer = ioctl(file, verb[2] == 's' ? IOC_PR_RESERVE : IOC_PR_RELEASE, &call);
	} else if (strcmp(verb, "preempt") == 0 || strcmp(verb, "abort") == 0) {
		struct pr_preempt call = { n[0], n[1], n[2], 0 };
		answer = ioctl(file, verb[0] == 'p' ? IOC_PR_PREEMPT : IOC_PR_PREEMPT_ABORT, &call);
	} else if (strcmp(verb, "clear") == 0) {
		struct pr_clear call = { n[0], 0, 0 };
		answer = ioctl(file, IOC_PR_CLEAR, &call);
	} else {
		fprintf(stderr, "pr: see the head of pr.c\n");
		return 2;
	}
	if (answer < 0) {
		fprintf(stderr, "pr: %s: %s\n", verb, strerror(errno));
		return 2;
	}
	if (answer > 0) {
		printf("refused %#x\n", answer);
		return 1;
	}
	puts("ok");
	return 0;
}
