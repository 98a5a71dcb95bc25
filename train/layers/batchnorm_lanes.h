/* SPDX-License-Identifier: Apache-2.0
 *
 * batchnorm_lanes.h - the loops of batchnorm_rows.c over the pixels of a row, for one
 * size of block. The file that includes this has defined
 *
 *     LANE               the values of a pixel: a float, or a vector of block floats
 *     KEEP(so, value)    value where `so`, a comparison of LANEs, is true; else 0
 *     CUT(so, value)     0 where it is true; else value
 *     NAME(loop)         the loop's name for this block
 *
 * Loops over the channels of a pixel, inside the loop over pixels, say the same.
 * But gcc 12 unrolls the inner one and then exchanges lanes between pixels in thousands
 * of instructions. All blocks compute each channel alike, so the bits are the same. */

/* Sums of (x - shift) and its square. A shift near the mean keeps their difference
 * exact enough for a variance. */
ROW void NAME(sum_row)(const float *restrict in, const float *restrict shift,
                       size_t pixels, float *restrict sum, float *restrict square)
{
    const LANE *x = (const LANE *)in, c = *(const LANE *)shift;
    LANE s = {0}, t = {0}, q = {0}, r = {0}, last = {0};
    size_t p = 0;

    for (; p + 2 <= pixels; p += 2) {
        LANE u = x[p] - c, v = x[p + 1] - c;
        s += u;
        q += u * u;
        t += v;
        r += v * v;
    }
    if (p < pixels)
        last = x[p] - c;
    *(LANE *)sum = s + t + last;
    *(LANE *)square = q + r + last * last;
}

/* NaN is not below 0 and stays. */
ROW void NAME(scale_row)(const row *r, int add, int relu)
{
    const LANE *restrict x = (const LANE *)r->in;
    const LANE *restrict more = (const LANE *)r->more;
    const LANE a = *(const LANE *)r->scale, b = *(const LANE *)r->offset, zero = {0};
    LANE *restrict out = (LANE *)r->out;

    for (size_t p = 0; p < r->pixels; p++) {
        LANE y = x[p] * a + b;
        if (add)
            y += more[p];
        out[p] = relu ? CUT(y < zero, y) : y;
    }
}

ROW void NAME(scale_kind)(const row *r, int relu)
{
    if (r->more != NULL && relu)
        NAME(scale_row)(r, 1, 1);
    else if (r->more != NULL)
        NAME(scale_row)(r, 1, 0);
    else if (relu)
        NAME(scale_row)(r, 0, 1);
    else
        NAME(scale_row)(r, 0, 0);
}

/* Sums of g and of g (x - mean). FROM_OUT also replaces dout by g. */
ROW void NAME(back_row)(const row *r, int cut, float *restrict sum,
                        float *restrict product)
{
    const LANE *restrict x = (const LANE *)r->in;
    const LANE *restrict out = (const LANE *)r->more;
    const LANE mean = *(const LANE *)r->mean, a = *(const LANE *)r->scale;
    const LANE b = *(const LANE *)r->offset, zero = {0};
    LANE *restrict dout = (LANE *)r->dout;
    LANE s = {0}, q = {0};

    for (size_t p = 0; p < r->pixels; p++) {
        LANE g = dout[p];
        if (cut == FROM_IN)
            g = KEEP(x[p] * a + b > zero, g);
        if (cut == FROM_OUT)
            dout[p] = g = KEEP(out[p] > zero, g);
        s += g;
        q += g * (x[p] - mean);
    }
    *(LANE *)sum = s;
    *(LANE *)product = q;
}

ROW void NAME(back_kind)(const row *r, int cut, float *sum, float *product)
{
    if (cut == FROM_IN)
        NAME(back_row)(r, FROM_IN, sum, product);
    else if (cut == FROM_OUT)
        NAME(back_row)(r, FROM_OUT, sum, product);
    else
        NAME(back_row)(r, NONE, sum, product);
}

/* din = scale g + a (x - mean) + b. din may lie where x or dout does: every element
 * depends on those of its own place alone. */
ROW void NAME(din_row)(const row *r, int cut)
{
    const LANE *x = (const LANE *)r->in, *dout = (const LANE *)r->dout;
    const LANE mean = *(const LANE *)r->mean, k = *(const LANE *)r->scale;
    const LANE o = *(const LANE *)r->offset, zero = {0};
    const LANE a = *(const LANE *)r->a, b = *(const LANE *)r->b;
    LANE *din = (LANE *)r->din;

    for (size_t p = 0; p < r->pixels; p++) {
        LANE g = cut ? KEEP(x[p] * k + o > zero, dout[p]) : dout[p];
        din[p] = k * g + (a * (x[p] - mean) + b);
    }
}

ROW void NAME(din_kind)(const row *r, int cut)
{
    if (cut)
        NAME(din_row)(r, 1);
    else
        NAME(din_row)(r, 0);
}

#undef LANE
#undef KEEP
#undef CUT
#undef NAME
