// Locks and unlocks with redsync, as its parent asks.
//
// The argument is the URL of Redis. benches/peers/README.md describes the commands.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redis "github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// Locks that are held for long get this lease, and the driver extends them after a third of it:
// redsync does not do so itself.
const longLease = 30 * time.Second

type driver struct {
	options *redis.Options
	// At least one. Only contend uses more than the first.
	libraries []*redsync.Redsync
	taken     *redsync.Mutex
}

// clients makes as many clients as needed. The workers of contend share them.
func (d *driver) clients(count int64) {
	for int64(len(d.libraries)) < count {
		pool := goredis.NewPool(redis.NewClient(d.options))
		d.libraries = append(d.libraries, redsync.New(pool))
	}
	d.libraries = d.libraries[:max(count, 1)]
}

// now returns nanoseconds of the clock that all processes of the machine share.
func now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

// insist repeats a call that gave up.
func insist(mutex *redsync.Mutex) {
	for mutex.Lock() != nil {
	}
}

func main() {
	options, err := redis.ParseURL(os.Args[1])
	if err != nil {
		panic(err)
	}
	driver := &driver{options: options}
	driver.clients(1)
	// The parent closes the input when it ends.
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words, err := driver.run(strings.Split(lines.Text(), " "))
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println(strings.TrimSpace("ok " + words))
		}
	}
}

func (d *driver) run(words []string) (string, error) {
	switch words[0] {
	case "pairs":
		return d.pairs(words[1], number(words[2]))
	case "clients":
		d.clients(number(words[1]))
		return "", nil
	case "contend":
		return d.contend(words[1:])
	case "apart":
		return d.apart(words[1:])
	case "take":
		d.taken = d.libraries[0].NewMutex(words[1])
		insist(d.taken)
		return "", nil
	case "give":
		time.Sleep(time.Duration(number(words[1])) * time.Microsecond)
		unlocking := now()
		_, err := d.taken.Unlock()
		return fmt.Sprint(unlocking), err
	case "enter":
		mutex := d.libraries[0].NewMutex(words[1])
		called := now()
		insist(mutex)
		granted := now()
		_, err := mutex.Unlock()
		return fmt.Sprint(called, granted), err
	case "hold":
		return "", d.hold(words[1], number(words[2]))
	}
	return "", fmt.Errorf("not a command: %s", words[0])
}

func number(word string) int64 {
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func (d *driver) pairs(name string, pairs int64) (string, error) {
	mutex := d.libraries[0].NewMutex(name)
	var times strings.Builder
	for ; pairs > 0; pairs-- {
		start := now()
		if err := mutex.Lock(); err != nil {
			return "", err
		}
		if _, err := mutex.Unlock(); err != nil {
			return "", err
		}
		fmt.Fprint(&times, now()-start, " ")
	}
	return times.String(), nil
}

func (d *driver) hold(prefix string, locks int64) error {
	var held []*redsync.Mutex
	for number := int64(0); number < locks; number++ {
		name := fmt.Sprintf("%s:%d", prefix, number)
		mutex := d.libraries[0].NewMutex(name, redsync.WithExpiry(longLease))
		if err := mutex.Lock(); err != nil {
			return err
		}
		held = append(held, mutex)
	}
	go func() {
		for {
			time.Sleep(longLease / 3)
			for _, mutex := range held {
				mutex.Extend()
			}
		}
	}()
	return nil
}
