/* What lwIP needs of the platform. */
#ifndef CC_H
#define CC_H

#include <stdio.h>
#include <stdlib.h>

unsigned tcpassay_random(void);

#define LWIP_RAND() tcpassay_random()
#define LWIP_PLATFORM_DIAG(x) ((void)0)
#define LWIP_PLATFORM_ASSERT(x) do { fprintf(stderr, "assertion failed: %s (%s:%d)\n", x, __FILE__, __LINE__); abort(); } while (0)

#endif
