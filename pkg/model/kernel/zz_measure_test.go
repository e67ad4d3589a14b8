package kernel

import (
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"
)

func measure(f func()) float64 { // min seconds per call
	best := 1e9
	n := 1
	t0 := time.Now()
	f()
	d := time.Since(t0).Seconds()
	if d < 2e-4 {
		n = int(2e-4/d) + 1
	}
	end := time.Now().Add(400 * time.Millisecond)
	for time.Now().Before(end) {
		t0 := time.Now()
		for i := 0; i < n; i++ {
			f()
		}
		d := time.Since(t0).Seconds() / float64(n)
		if d < best {
			best = d
		}
	}
	return best
}
func TestMeasure(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	r := rand.New(rand.NewSource(1))
	one := func(m, k, n int, mode string) {
		a, bb, c := randSlice(r, m*k), randSlice(r, n*k), make([]float32, m*n)
		lda, ldb := k, n
		ta, tb := mode[0] == 'T', mode[1] == 'T'
		if ta {
			lda = m
		}
		if tb {
			ldb = k
		}
		fl := 2 * float64(m) * float64(n) * float64(k) / 1e9
		d := measure(func() { Gemm(ta, tb, m, n, k, a, lda, bb, ldb, false, c, n) })
		var p Packed
		PackB(tb, k, n, bb, ldb, &p)
		e := measure(func() { GemmPacked(ta, m, n, k, a, lda, &p, false, c, n) })
		pk := measure(func() { PackB(tb, k, n, bb, ldb, &p) })
		fmt.Printf("%s m%d_k%d_n%d  %.1f  packed %.1f  pack %.2f ns/el\n", mode, m, k, n, fl/d, fl/e, pk*1e9/float64(k*n))
	}
	for _, s := range [][3]int{{256, 64, 192}, {256, 128, 384}, {4096, 64, 100}, {4096, 64, 192}, {1, 64, 192}, {8, 64, 192}, {32, 64, 192}, {32, 128, 384}} {
		one(s[0], s[1], s[2], "NT")
		one(s[0], s[1], s[2], "NN")
	}
	for _, s := range [][3]int{{192, 4096, 64}, {100, 4096, 64}, {384, 4096, 128}, {64, 256, 192}, {128, 256, 384}, {192, 20000, 64}} {
		one(s[0], s[1], s[2], "TN")
	}
}

func TestMeasure2(t *testing.T){
 if os.Getenv("MEASURE")==""{t.Skip()}
 r:=rand.New(rand.NewSource(1))
 for _,h:=range []int{64,128}{
 c:=newCellCase(r,32,h,true,1)
 for i:=range c.save.x{c.save.x[i]=0}
 d:=measure(func(){c.forward(true)}); e:=measure(c.backward); f:=measure(func(){c.forward(false)})
 k:=float64(32*h)
 fmt.Printf("GRU h%d fwd %.3f nosave %.3f bwd %.3f ns/unit\n",h,d*1e9/k,f*1e9/k,e*1e9/k)
 }
 const rows,n=32,100
 x,targets:=randSlice(r,rows*n),randTargets(r,rows,n)
 logp,entropy,probs,dd:=make([]float32,rows),make([]float32,rows),make([]float32,rows*n),make([]float32,rows*n)
 fmt.Printf("gather %.0f ns/row\n",measure(func(){LogSoftmaxGather(rows,n,x,1,targets,logp,entropy,probs)})*1e9/rows)
 fmt.Printf("back %.0f ns/row\n",measure(func(){LogSoftmaxBackward(rows,n,probs,logp,entropy,targets,logp,nil,1,dd)})*1e9/rows)
 fmt.Printf("back+ent %.0f ns/row\n",measure(func(){LogSoftmaxBackward(rows,n,probs,logp,entropy,targets,logp,entropy,1,dd)})*1e9/rows)
 w,g,m,v:=randSlice(r,62820),randSlice(r,62820),make([]float32,62820),make([]float32,62820)
 fmt.Printf("adam %.1f us\n",measure(func(){AdamW(w,g,m,v,1e-3,.9,.95,1e-8,0,1,10)})*1e6)
 fmt.Printf("sumsq %.1f us\n",measure(func(){SumSquares(g)})*1e6)
 y,o:=randSlice(r,4096*192),make([]float32,192)
 fmt.Printf("colsum 4096x192 %.1f us, addbias %.1f\n",measure(func(){ColSum(4096,192,y,192,false,o)})*1e6,measure(func(){AddBias(4096,192,y,192,o)})*1e6)
 p:=NewPool(2); defer p.Close()
 f:=func(int,int){}
 fmt.Printf("pool run %.2f us\n",measure(func(){p.Run(4,f)})*1e6)
 for _,s:=range [][3]int{{256,64,192},{4096,64,192},{192,4096,64}}{
  m,k,n:=s[0],s[1],s[2]
  a,b,c:=randSlice(r,m*k),randSlice(r,n*k),make([]float32,m*n)
  ta:=k>1000; lda:=k; if ta{lda=m}
  d:=measure(func(){p.Gemm(ta,!ta,m,n,k,a,lda,b,map[bool]int{true:n,false:k}[ta],false,c,n)})
  fmt.Printf("pool2 gemm %v %.1f\n",s,2*float64(m*n*k)/d/1e9)
 }
}
