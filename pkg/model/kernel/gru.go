package kernel

// GRUForward computes the gates and the new state of a GRU cell for rows states of size H = hidden,
// with PyTorch's equations (torch.nn.GRU):
//
//	r  = σ(gi_r + gh_r)
//	z  = σ(gi_z + gh_z)
//	n  = tanh(gi_n + r·gh_n)
//	h' = (1-z)·n + z·h = n + z·(h-n)
//
// where gi = x·Wihᵀ + bih and gh = h·Whhᵀ + bhh.
//
// gi and gh are rows×3H, the gates r, z, n next to each other in each row. bih and bhh have 3H
// elements and are added here; nil means that gi or gh already includes them. h and out are rows×H
// and may be the same slice. save, rows×4H, receives r, z, n and gh_n (its bias included) for
// [GRUBackward]; nil drops them.
//
// It panics if a slice is too short.
func GRUForward(rows, hidden int, gi, gh []float32, bih, bhh []float32, h []float32, out []float32, save []float32) {
	if rows <= 0 || hidden <= 0 {
		return
	}
	checkLen("gi", gi, rows*3*hidden)
	checkLen("gh", gh, rows*3*hidden)
	checkLen("h", h, rows*hidden)
	checkLen("out", out, rows*hidden)
	if bih != nil {
		checkLen("bih", bih, 3*hidden)
	}
	if bhh != nil {
		checkLen("bhh", bhh, 3*hidden)
	}
	if save != nil {
		checkLen("save", save, rows*4*hidden)
	}
	gruForward(rows, hidden, gi, gh, bih, bhh, h, out, save)
}

// GRUBackward is the backward pass of [GRUForward]:
//
//	dn   = dout·(1-z)        da_n = dn·(1-n²)
//	dz   = dout·(h-n)        da_z = dz·z·(1-z)
//	dr   = da_n·gh_n         da_r = dr·r·(1-r)
//	dgi  = (da_r, da_z, da_n)
//	dgh  = (da_r, da_z, da_n·r)
//	dh   = dout·z
//
// dout (dL/dh') and h are rows×H and save, rows×4H, is what GRUForward wrote. It is overwritten by
// da_r, da_z, da_n and da_n·r: dgi are its first 3H columns, which saves the memory traffic of
// another array. dgh (rows×3H) is also written contiguously for the next matmul, and dh (rows×H) is
// the part of dL/dh that does not pass through gh; the caller adds dgh·Whh. dh may be the same
// slice as dout. dgi and dgh are also the gradients of the two biases, summed over rows.
//
// It panics if a slice is too short.
func GRUBackward(rows, hidden int, dout []float32, h []float32, save []float32, dgh []float32, dh []float32) {
	if rows <= 0 || hidden <= 0 {
		return
	}
	checkLen("dout", dout, rows*hidden)
	checkLen("h", h, rows*hidden)
	checkLen("save", save, rows*4*hidden)
	checkLen("dgh", dgh, rows*3*hidden)
	checkLen("dh", dh, rows*hidden)
	gruBackward(rows, hidden, dout, h, save, dgh, dh)
}

func gruForwardGo(rows, hidden int, gi, gh, bih, bhh, h, out, save []float32) {
	bias := func(b []float32, j int) float32 {
		if b == nil {
			return 0
		}
		return b[j]
	}
	for i := range rows {
		gi, gh := gi[i*3*hidden:(i+1)*3*hidden], gh[i*3*hidden:(i+1)*3*hidden]
		h, out := h[i*hidden:(i+1)*hidden], out[i*hidden:(i+1)*hidden]
		for j := range hidden {
			jz, jn := j+hidden, j+2*hidden
			r := sigmoid32((gi[j] + bias(bih, j)) + (gh[j] + bias(bhh, j)))
			z := sigmoid32((gi[jz] + bias(bih, jz)) + (gh[jz] + bias(bhh, jz)))
			ghn := gh[jn] + bias(bhh, jn)
			n := tanh32(float32(r*ghn) + (gi[jn] + bias(bih, jn)))
			out[j] = float32(z*(h[j]-n)) + n
			if save != nil {
				s := save[i*4*hidden:]
				s[j], s[jz], s[jn], s[j+3*hidden] = r, z, n, ghn
			}
		}
	}
}

func gruBackwardGo(rows, hidden int, dout, h, save, dgh, dh []float32) {
	for i := range rows {
		save := save[i*4*hidden : (i+1)*4*hidden]
		dgh := dgh[i*3*hidden : (i+1)*3*hidden]
		for j := range hidden {
			jz, jn := j+hidden, j+2*hidden
			r, z, n, ghn := save[j], save[jz], save[jn], save[j+3*hidden]
			g := dout[i*hidden+j]
			dan := float32(g*(1-z)) * (1 - float32(n*n))
			daz := float32(g*(h[i*hidden+j]-n)) * float32(z*(1-z))
			dar := float32(dan*ghn) * float32(r*(1-r))
			save[j], save[jz], save[jn], save[j+3*hidden] = dar, daz, dan, dan*r
			dgh[j], dgh[jz], dgh[jn] = dar, daz, dan*r
			dh[i*hidden+j] = g * z
		}
	}
}
