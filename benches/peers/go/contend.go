package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// load is the work of all goroutines of this process in one window.
type load struct {
	name, counter string
	threads       int64
	hold, pause   time.Duration
	start, end    int64
}

// report is what one goroutine did, or all of them.
type report struct {
	holds, inside, gaveUp, longest int64
	waits                          map[int]int64
	err                            error
}

// contend has the words NAME COUNTER THREADS HOLD PAUSE START END: hold and pause in microseconds.
func (d *driver) contend(words []string) (string, error) {
	micros := func(word string) time.Duration { return time.Duration(number(word)) * time.Microsecond }
	load := load{
		name: words[0], counter: words[1], threads: number(words[2]),
		hold: micros(words[3]), pause: micros(words[4]),
		start: number(words[5]), end: number(words[6]),
	}
	reports := make(chan report)
	for thread := range load.threads {
		library := d.libraries[thread%int64(len(d.libraries))]
		go func() { reports <- work(library, load) }()
	}
	all := report{waits: map[int]int64{}}
	for range load.threads {
		all.add(<-reports)
	}
	return all.words(), all.err
}

func work(library *redsync.Redsync, load load) report {
	report := report{waits: map[int]int64{}}
	file, err := os.OpenFile(load.counter, os.O_RDWR, 0)
	if err != nil {
		report.err = err
		return report
	}
	defer file.Close()
	mutex := library.NewMutex(load.name)
	time.Sleep(time.Duration(load.start - now()))
	for now() < load.end {
		called := now()
		err := mutex.Lock()
		for err != nil && now() < load.end {
			report.gaveUp++
			err = mutex.Lock()
		}
		report.waited(now() - called)
		if err != nil {
			break
		}
		if report.err = section(file, load.hold); report.err != nil {
			break
		}
		report.holds++
		if now() < load.end {
			report.inside++
		}
		if _, report.err = mutex.Unlock(); report.err != nil {
			break
		}
		if load.pause > 0 {
			time.Sleep(load.pause)
		}
	}
	return report
}

// section adds 1 to the counter in two steps, so that two holders of a lock lose an addition.
func section(file *os.File, hold time.Duration) error {
	bytes := make([]byte, 8)
	if _, err := file.ReadAt(bytes, 0); err != nil {
		return err
	}
	if hold > 0 {
		time.Sleep(hold)
	}
	binary.LittleEndian.PutUint64(bytes, binary.LittleEndian.Uint64(bytes)+1)
	_, err := file.WriteAt(bytes, 0)
	return err
}

func (r *report) waited(nanos int64) {
	// 32 buckets for each doubling.
	r.waits[int(math.Log2(math.Max(float64(nanos), 1))*32)]++
	r.longest = max(r.longest, nanos)
}

func (r *report) add(other report) {
	r.holds += other.holds
	r.inside += other.inside
	r.gaveUp += other.gaveUp
	r.longest = max(r.longest, other.longest)
	for bucket, count := range other.waits {
		r.waits[bucket] += count
	}
	if other.err != nil {
		r.err = other.err
	}
}

func (r *report) words() string {
	return r.withWaits(fmt.Sprint(r.holds, r.inside, r.gaveUp, r.longest))
}

// withWaits adds a word for each bucket.
func (r *report) withWaits(numbers string) string {
	words := []string{numbers}
	for bucket, count := range r.waits {
		words = append(words, fmt.Sprintf("%d:%d", bucket, count))
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
