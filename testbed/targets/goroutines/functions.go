package main

// Each function burns CPU for so many rounds and queues one dispatch after some of them. They are copies on purpose: a
// sample has to tell them apart by name.
var functions = []func(w *worker, rounds, at int){work0, work1, work2, work3, work4, work5, work6, work7}

//go:noinline
func work0(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work0")
		}
	}
}

//go:noinline
func work1(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work1")
		}
	}
}

//go:noinline
func work2(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work2")
		}
	}
}

//go:noinline
func work3(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work3")
		}
	}
}

//go:noinline
func work4(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work4")
		}
	}
}

//go:noinline
func work5(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work5")
		}
	}
}

//go:noinline
func work6(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work6")
		}
	}
}

//go:noinline
func work7(w *worker, rounds, at int) {
	for i := range rounds {
		w.state = scramble(w.state)
		if i == at {
			w.queue("main.work7")
		}
	}
}
