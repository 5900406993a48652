package virtqueue_test

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// A device's turn on a queue with buffers to read; the guest is played by
// virtqtest.
func ExampleQueue() {
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x10000, 1<<16))
	if err != nil {
		fmt.Println(err)
		return
	}
	guest, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: 8, EventIdx: true, Indirect: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(mem.Bytes(0x18000, 12), "hello, world")
	guest.Add([]virtqtest.Buffer{{Addr: 0x18000, Len: 7}, {Addr: 0x18007, Len: 5}}, nil)
	guest.Publish()

	q, err := virtqueue.New(guest.QueueConfig(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	vecs := make([]iov.Vec, 0, 64)
	frame := make([]byte, 64)
	for more := true; more; more = q.ArmKicks() {
		q.SuppressKicks()
		for {
			v, token, err := q.Take(vecs[:0])
			if errors.Is(err, virtqueue.ErrEmpty) {
				break
			} else if err != nil {
				fmt.Println("stop this queue:", err)
				return
			}
			n := iov.CopyOut(frame, v, 0)
			fmt.Printf("%q in %d pieces\n", frame[:n], len(v))
			q.Return(token, 0)
		}
		if q.Publish() {
			fmt.Println("call the driver")
		}
	}
	// Output:
	// "hello, world" in 2 pieces
	// call the driver
}
