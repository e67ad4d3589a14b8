package kernel
import ("testing";"fmt";"math/rand";"os")
func TestMeasure3(t *testing.T){
 if os.Getenv("MEASURE")==""{t.Skip()}
 r:=rand.New(rand.NewSource(1))
 for _,rows:=range []int{1,4,32,256}{
 c:=newCellCase(r,rows,64,true,1)
 c.forward(true)
 d:=measure(func(){c.forward(true)}); e:=measure(c.backward); f:=measure(func(){c.forward(false)})
 k:=float64(rows*64)/8
 fmt.Printf("GRU rows%d fwd %.1f nosave %.1f bwd %.1f ns/vector\n",rows,d*1e9/k,f*1e9/k,e*1e9/k)
 }
 x:=float32(0)
 d:=measure(func(){ for i:=0;i<1000;i++{ x=x*0.5+1 } })
 fmt.Printf("mul+add latency 7 or 8 cycles: %.3f ns  %v\n",d*1e6,x)
}
