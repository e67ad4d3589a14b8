def check():
    for baseline, advantage_normalizer in (("mean", "std"), ("mean", "none"), ("none", "none"), ("mean", "mean")):
        call("compute_group_normalized_rewards", raw_rewards=rewards, group_size=4, baseline=baseline,
             advantage_eps=1e-6, advantage_normalizer=advantage_normalizer)
    for method, cliprange in (("none", None), ("noclip", None), ("grpo", 0.2), ("gspo", 0.05)):
        call("compute_policy_gradient_loss", raw_rewards_or_advantages=advantages, policy_log_probs=policy_log_probs,
             importance_reweighting_method=method, old_log_probs=old_log_probs, cliprange=cliprange,
             response_mask=response_mask)
    for loss_normalization, constant in (("sequence", None), ("constant", 24)):
        call("aggregate_loss_across_microbatch", per_token_policy_gradient_loss=policy_log_probs, mask=response_mask,
             loss_normalization=loss_normalization, normalization_constant=constant)
        train_step("grpo", 0.2, loss_normalization, constant)
    # A whole grpo_train_step of yours, where policy_log_probs, of all micro-batches, are those of the step, and
    # policy_log_probs.retain_grad() comes before backward:
    # keep("grpo_train_step",
    #      dict(policy_log_probs=policy_log_probs, response_mask=response_mask, raw_rewards=raw_rewards, group_size=8,
    #           baseline="mean", advantage_normalizer="std", advantage_eps=1e-6, loss_normalization="sequence"),
    #      loss=loss, policy_log_probs_grad=policy_log_probs.grad)


def train_step(method, cliprange, loss_normalization, constant):
    """The loss of a train step from your functions, and its gradient."""
    logp = policy_log_probs.detach().clone().requires_grad_()
    how = dict(importance_reweighting_method=method, old_log_probs=old_log_probs, cliprange=cliprange)
    normalization = dict(loss_normalization=loss_normalization, normalization_constant=constant)
    try:
        tokens, _ = adapters.run_compute_policy_gradient_loss(advantages, logp, response_mask=response_mask, **how)
        loss = adapters.run_aggregate_loss_across_microbatch(tokens, response_mask, **normalization)
        loss.backward()
    except Exception as error:
        return leave_out("the train step", error)
    keep("grpo_train_step",
         dict(policy_log_probs=logp, response_mask=response_mask, advantages=advantages, **how, **normalization),
         loss=loss, policy_log_probs_grad=logp.grad)


check()
print(json.dumps(numbers({"calls": calls})), file=out)
if failed:
    sys.exit("functions that failed: " + ", ".join(failed))
