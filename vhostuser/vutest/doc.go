// Package vutest plays the frontend of a vhost-user device: what QEMU, User Mode
// Linux, DPDK or cloud-hypervisor do to a backend. It tests backends, this
// project's and others, and is the ground to build in-process guests and load
// generators on.
//
//	mem, err := vutest.NewMemory(vutest.Span{Size: 64 << 20})
//	guest, err := vutest.NewGuest(mem, 2, virtqtest.Config{Size: 256, EventIdx: true})
//	fe, err := vutest.Dial("/run/backend.sock", vutest.QEMU)
//	err = fe.Connect()           // negotiate, as the frontend does at its start
//	err = fe.Start(guest, want)  // set the rings up, as when the driver starts
//	tx := guest.Queues[1]
//	tx.Add(...)                  // a virtqtest.Driver
//	err = tx.Kick()
//	ok := tx.WaitCall(time.Second)
//	err = fe.Stop()              // and fe.Start again, or another frontend
//
// [Guest] is the virtual machine: memory and rings, which outlive a connection.
// [Frontend] is one connection. Its methods come in three levels: Connect, Start
// and Stop send the messages of a real frontend ([Style]) in its order; Do and
// Get send one request of any kind; Conn sends bytes.
//
// Nothing here is safe for use by several goroutines at a time, except that
// different queues of a guest may be driven by different goroutines.
package vutest
