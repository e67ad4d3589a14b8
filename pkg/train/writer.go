package train

// writer waits for the disk while a run goes on. A checkpoint of a Llama or Qwen network is in the
// system's memory after a second or two, but takes many to reach the disk. Only then does it get
// its name, so a crash before leaves the previous one.
type writer struct {
	background bool       // otherwise tasks are done at once
	last       chan error // the result of the task that was given last
}

// do does a task after those before it, none of which may have failed. In the background the error
// is that of the next wait.
func (w *writer) do(task func() error) error {
	if !w.background {
		return task()
	}
	before, result := w.last, make(chan error, 1)
	w.last = result
	go func() {
		var err error
		if before != nil {
			err = <-before
		}
		if err == nil {
			err = task()
		}
		result <- err
	}()
	return nil
}

// wait waits for all tasks and returns the first error.
func (w *writer) wait() (err error) {
	if w.last != nil {
		err = <-w.last
	}
	w.last = nil
	return err
}
