def check():
    def score(response, ground_truth):
        return dict.fromkeys(("reward", "format_reward", "answer_reward"), rewards[int(response)].item())

    for normalize_by_std in (True, False):
        call("compute_group_normalized_rewards", raw_rewards=rewards, reward_fn=score,
             rollout_responses=[str(i) for i in range(8)], repeated_ground_truths=[""] * 8,
             group_size=4, advantage_eps=1e-6, normalize_by_std=normalize_by_std)
    call("compute_naive_policy_gradient_loss", raw_rewards_or_advantages=raw_rewards, policy_log_probs=policy_log_probs)
    call("compute_grpo_clip_loss", advantages=advantages, policy_log_probs=policy_log_probs,
         old_log_probs=old_log_probs, cliprange=0.2)
    tokens = dict(policy_log_probs=policy_log_probs, raw_rewards=raw_rewards, advantages=advantages,
                  old_log_probs=old_log_probs, cliprange=0.2)
    for loss_type in ("no_baseline", "reinforce_with_baseline", "grpo_clip"):
        call("compute_policy_gradient_loss", loss_type=loss_type, **tokens)
    for dim in (1, None):
        call("masked_mean", tensor=policy_log_probs, mask=response_mask, dim=dim)
        call("masked_normalize", tensor=policy_log_probs, mask=response_mask, dim=dim, normalize_constant=6.0)
    call("compute_entropy", logits=torch.randn(2, 3, 5))
    for normalize_constant in (1.0, 6.0):
        call("sft_microbatch_train_step", policy_log_probs=policy_log_probs, response_mask=response_mask,
             gradient_accumulation_steps=2, normalize_constant=normalize_constant)
    for loss_type in ("no_baseline", "reinforce_with_baseline", "grpo_clip"):
        call("grpo_microbatch_train_step", response_mask=response_mask, gradient_accumulation_steps=2,
             loss_type=loss_type, **tokens)
    # A call of your training loop, where policy_log_probs.retain_grad() comes before backward:
    # keep("grpo_microbatch_train_step",
    #      dict(policy_log_probs=policy_log_probs, response_mask=response_mask, gradient_accumulation_steps=128,
    #           loss_type="grpo_clip", advantages=advantages, old_log_probs=old_log_probs, cliprange=0.2),
    #      loss=loss, policy_log_probs_grad=policy_log_probs.grad)


check()
print(json.dumps(numbers({"calls": calls})), file=out)
if failed:
    sys.exit("functions that failed: " + ", ".join(failed))
