package main

import (
	"fmt"
	"math"
	"time"
)

// apart has the words PREFIX WORKERS START END: each worker has a name of its own.
func (d *driver) apart(words []string) (string, error) {
	workers, start, end := number(words[1]), number(words[2]), number(words[3])
	reports := make(chan report)
	for worker := range workers {
		name := fmt.Sprintf("%s:%d", words[0], worker)
		go func() { reports <- d.pairsUntil(name, start, end) }()
	}
	all := report{waits: map[int]int64{}}
	slowest, fastest := int64(math.MaxInt64), int64(0)
	for range workers {
		one := <-reports
		slowest, fastest = min(slowest, one.inside), max(fastest, one.inside)
		all.add(one)
	}
	numbers := fmt.Sprint(all.holds, all.inside, all.gaveUp, all.longest, slowest, fastest)
	return all.withWaits(numbers), all.err
}

// pairsUntil locks and unlocks until the window ends. The first pair opens connections.
func (d *driver) pairsUntil(name string, start, end int64) report {
	report := report{waits: map[int]int64{}}
	mutex := d.libraries[0].NewMutex(name)
	for isFirst := true; isFirst || now() < end; isFirst = false {
		called := now()
		for mutex.Lock() != nil {
			report.gaveUp++
		}
		if _, report.err = mutex.Unlock(); report.err != nil {
			break
		}
		report.holds++
		if isFirst {
			time.Sleep(time.Duration(start - now()))
			continue
		}
		report.waited(now() - called)
		if now() < end {
			report.inside++
		}
	}
	return report
}
