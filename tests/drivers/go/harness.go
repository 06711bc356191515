package main

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

// failure is what a check panics with; any other panic is reported as well.
type failure struct{ why string }

func fail(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func must(err error) {
	if err != nil {
		fail("%T: %v", err, err)
	}
}

func equal(found, wanted any, what string) {
	if !reflect.DeepEqual(found, wanted) {
		fail("%s: found %.200v, wanted %.200v", what, found, wanted)
	}
}

func eventually(what string, condition func() bool) {
	deadline := time.Now().Add(15 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			fail("not within 15 s: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

type check struct {
	name string
	run  func(*context)
}

// runAll runs every check, prints a line for each and returns how many failed.
func runAll(driver string, checks []check, c *context) int {
	failed := 0
	for _, one := range checks {
		if why := runOne(one, c); why != "" {
			failed++
			fmt.Printf("FAIL %s/%s: %.600s\n", driver, one.name, strings.ReplaceAll(why, "\n", " "))
		} else {
			fmt.Printf("ok %s/%s\n", driver, one.name)
		}
	}
	return failed
}

func runOne(one check, c *context) (why string) {
	defer func() {
		if caught := recover(); caught != nil {
			if known, ok := caught.(failure); ok {
				why = known.why
			} else {
				why = fmt.Sprintf("panic: %v %s", caught, debug.Stack())
			}
		}
	}()
	one.run(c)
	return ""
}
